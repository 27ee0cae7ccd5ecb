// The retry budget: a hard bound on how much retries amplify the load of all
// calls of one Guard together.
//
// Why not just "at most 3 attempts"? Because that is a bound per call: when
// everything fails, every call uses it up, and the backend that was slow gets
// three times its load. A budget bounds the sum.
//
// The contract: whenever a token is taken, the window that ends then holds
//   retries <= min_retries + ratio * calls
// where calls are first attempts that were sent. Hence over any time T:
//   retries <= ratio * calls(T + window)
//              + min_retries * (ceil(T / window) + 1)
// Time is kept in slots of at most window / 128; a retry counts for up to two
// slots longer than the window and a call for up to two slots less, so the
// bound holds exactly and a token comes back late by window / 64 at most.
//
// Also here, because a retry needs the consent of all that are configured: a
// flat cap (`max_retries` per `max_retries_window`) and the token bucket of
// gRFC A6 (`retryThrottling`).

#ifndef RETRY_GUARD_POLICY_RETRY_BUDGET_H_
#define RETRY_GUARD_POLICY_RETRY_BUDGET_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "retry_guard/policy/export.h"
#include "retry_guard/policy/method_policy.h"

namespace retry_guard {

// Thread-safe. No method takes a lock. `now` is on one steady timeline; a
// thread may come with a `now` that is a little older than another's.
class RETRY_GUARD_EXPORT RetryBudget {
 public:
  // Proof of a token; needed to give it back. A value.
  struct Token {
    absl::Time taken_at;
  };

  RetryBudget(const BudgetPolicy& policy,
              const std::optional<ThrottlePolicy>& throttle);
  ~RetryBudget();

  RetryBudget(const RetryBudget&) = delete;
  RetryBudget& operator=(const RetryBudget&) = delete;

  // A call's first attempt is sent.
  void CountCall(absl::Time now);

  // gRFC A6 throttle arithmetic; nothing without one. A failed attempt with a
  // retryable code, or any attempt that the server answered with a stop
  // pushback, costs a token; a success adds milli_token_ratio.
  void CountSuccess();
  void CountFailure();

  // Takes one token, or nothing at all: check and take are one step, and a
  // partial take (budget yes, cap no) is rolled back.
  std::optional<Token> Take(absl::Time now);

  // For a retry that was then not sent.
  void GiveBack(const Token& token);

  // How many tokens could be taken at `now`, one after the other; 0 while the
  // throttle refuses.
  int64_t Left(absl::Time now) const;

  // gRFC A6 throttle level in thousandths; nothing without one.
  std::optional<int64_t> ThrottleMilliTokens() const;

  // Puts other parameters in force, from now on; what was counted stays. The
  // throttle keeps its fill *fraction*. Concurrent calls see the old parameters
  // or the new ones. Concurrent Reconfigure must be serialised by the caller.
  // A window that changes its length is counted anew, filled so that no token
  // is created: it starts with the retries of the old one and no calls, a Take
  // at the very moment of the change may be refused, and a token of the old
  // window can no longer be given back. A flat cap that was not there before
  // starts with the retries of the budget's window.
  void Reconfigure(const BudgetPolicy& policy,
                   const std::optional<ThrottlePolicy>& throttle,
                   absl::Time now);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_RETRY_BUDGET_H_
