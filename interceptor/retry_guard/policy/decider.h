// The one place that decides. It asks the policies in a fixed order, and the
// first "no" is the answer and its reason.
//
// Before an attempt is sent:
//   1. the caller has cancelled               -> CANCELLED, kCallerCancelled
//   2. the deadline is past                   -> kDeadlineTooClose
//   3. the breaker refuses                    -> kBreakerOpen
//   A first attempt answers with a status of its own then. A retry returns the
//   last status of the server (except for 1), its token is given back, and so
//   it is when the kill switch was thrown meanwhile (kDisabled).
//
// After an attempt has ended; breaker and throttle have been told already:
//   1. OK                                                 -> kSucceeded
//   2. the caller has cancelled                           -> kCallerCancelled
//   3. something already reached the caller               -> kCommitted
//   4. the outcome is not of a retryable kind             -> kNotRetryable
//   5. repeating it is not safe                           -> kNotIdempotent
//   6. the server forbids it                              -> kServerSaidStop
//      (a refused stream that was not re-sent yet is not asked about layers
//      and owners in 7, and skips 9)
//   7. the messages cannot be handled / retries are off / another layer owns
//      them / the policy says NEVER / gRPC core retries
//          -> kUnknownMessageType, kDisabled, kAnotherLayerRetries,
//             kLayerNever, kCoreRetries
//   8. the attempt was a probe, or the breaker is no longer closed
//                                                         -> kBreakerOpen
//   9. no attempts are left                               -> kAttemptsExhausted
//  10. delay + expected attempt time exceeds what remains -> kDeadlineTooClose
//  11. the budget has no token                            -> kBudgetExhausted
//  12. otherwise                                          -> kRetry
// The token is taken in 11, last, so that no refusal ever costs one.

#ifndef RETRY_GUARD_POLICY_DECIDER_H_
#define RETRY_GUARD_POLICY_DECIDER_H_

#include <optional>

#include "absl/time/time.h"
#include "retry_guard/policy/backoff.h"
#include "retry_guard/policy/circuit_breaker.h"
#include "retry_guard/policy/classifier.h"
#include "retry_guard/policy/decision.h"
#include "retry_guard/policy/export.h"
#include "retry_guard/policy/method_policy.h"
#include "retry_guard/policy/outcome.h"
#include "retry_guard/policy/retry_budget.h"

namespace retry_guard {

// What holds for a whole call.
struct CallTerms {
  const MethodPolicy* policy = nullptr;
  Repeat repeat = Repeat::kUnknown;
  bool key_travels = false;         // an idempotency key goes with it
  bool another_layer_owns = false;  // marked by a layer above, layer not HERE
  bool core_retries = false;        // gRPC core has a retryPolicy for it
  absl::Time deadline = absl::InfiniteFuture();  // on the clock of `now`
};

// A call's memory between its decisions. One per call; not thread-safe.
struct CallProgress {
  int attempts = 0;     // sent so far, a re-send included
  bool resent = false;  // the one re-send of a refused stream was used
  BackoffLadder ladder;
};

// What is asked about one ended attempt.
struct AttemptEnd {
  const Outcome* outcome = nullptr;
  // Why this call cannot be retried, whatever happens: asked in 7.
  std::optional<Reason> forbidden;
  bool caller_cancelled = false;
  bool committed = false;
  bool was_probe = false;
  bool breaker_closed = true;  // after it was told of this outcome
  bool retries_enabled = true;
  absl::Duration expected_attempt_time = absl::ZeroDuration();
};

struct Ruling {
  Reason reason = Reason::kSucceeded;
  absl::Duration delay = absl::ZeroDuration();  // of kRetry
  std::optional<RetryBudget::Token> token;      // of kRetry
  bool resend = false;

  bool retry() const { return reason == Reason::kRetry; }
};

// `unit` is uniform in [0, 1) and sets the delay.
RETRY_GUARD_EXPORT Ruling DecideAfterAttempt(const CallTerms& terms,
                                             CallProgress& progress,
                                             const AttemptEnd& end,
                                             RetryBudget& budget,
                                             absl::Time now, double unit);

// Lines 1 and 2 of "before an attempt", and the kill switch for a retry;
// nothing if the attempt may ask the breaker for its permit.
RETRY_GUARD_EXPORT std::optional<Reason> RefuseBeforeAttempt(
    const CallTerms& terms, bool is_retry, bool caller_cancelled,
    bool retries_enabled, absl::Time now);

// Whether this layer may retry the call at all, and so claims it with its
// marker: see "One layer retries" in the README.
RETRY_GUARD_EXPORT bool OwnsRetries(const CallTerms& terms,
                                    bool retries_enabled);

// What an attempt that ended so tells the breaker. `caller_cancelled`,
// `deadline_was_short` (the time that the attempt had was less than what a
// successful one takes), CANCELLED, and a code outside the policy's that no
// server has sent say nothing of the backend.
RETRY_GUARD_EXPORT CircuitBreaker::Result BreakerResult(
    const Outcome& outcome, const BreakerPolicy& policy, bool caller_cancelled,
    bool deadline_was_short);

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_DECIDER_H_
