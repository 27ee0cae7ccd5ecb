// What the calls of one channel share: the retry budget, the circuit breakers,
// the kill switch and the counters. Give the same Guard to several channels
// (all connections to one backend, or a whole process) and they share them.
//
//   InterceptorOptions options;
//   options.guard = retry_guard::Guard::Create();
//   ...
//   GuardSnapshot now = options.guard->Snapshot();

#ifndef RETRY_GUARD_GUARD_H_
#define RETRY_GUARD_GUARD_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "retry_guard/decision.h"
#include "retry_guard/policy/circuit_breaker.h"
#include "retry_guard/policy/export.h"

namespace retry_guard {

namespace internal {
class GuardState;
}  // namespace internal

// The four measures that an operator needs, and what they are made of: retry
// ratio, attempts to success, refusals by reason, time spent in backoff. The
// counters run since the Guard was created and never decrease.
struct GuardSnapshot {
  // Retries that the budget would grant right now; >= 0.
  int64_t budget_left = 0;
  // The shared breaker, and those of methods with `"breaker": "OWN"`, by
  // "/package.Service/Method". One whose time to probe has come is still kOpen
  // until a call comes to do so.
  BreakerState breaker_state = BreakerState::kClosed;
  std::map<std::string, BreakerState> own_breakers;
  // Results that came too late for any of them: they have changed state since
  // the attempt started.
  int64_t stale_breaker_results = 0;
  bool retries_enabled = true;

  int64_t calls = 0;     // that sent at least one attempt
  int64_t attempts = 0;  // sent, first ones included
  int64_t retries = 0;   // attempts - calls
  // [n] = calls that succeeded with their n-th attempt; [0] is not used. A call
  // of more than 21 attempts (20 and a re-send) cannot be.
  std::array<int64_t, 22> attempts_to_success = {};
  // Calls that ended without success, by the reason why no (further) attempt
  // was made. Reasons with a count of zero are absent.
  std::map<Reason, int64_t> refusals;
  absl::Duration backoff_time = absl::ZeroDuration();  // sum over all retries

  // retries / calls; 0 without calls.
  double retry_ratio() const {
    return calls == 0
               ? 0
               : static_cast<double>(retries) / static_cast<double>(calls);
  }
};

// Thread-safe. Lives as long as any channel that uses it, or call of theirs.
class RETRY_GUARD_EXPORT Guard {
 public:
  static std::shared_ptr<Guard> Create();
  ~Guard();

  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Takes a few microseconds; not a consistent cut through calls that run.
  GuardSnapshot Snapshot() const;

  // The operator's kill switch. Off: no retry is sent by any channel of this
  // guard, waiting ones included; nothing is claimed from the layers below; the
  // breaker works on. On by default. From any thread, observers included.
  void SetRetriesEnabled(bool enabled);

  // For the library's own use.
  internal::GuardState& state() { return *state_; }

 private:
  Guard();

  std::unique_ptr<internal::GuardState> state_;
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_GUARD_H_
