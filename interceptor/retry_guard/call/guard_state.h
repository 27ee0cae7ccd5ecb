// What is behind a Guard: budget, breakers, switch, counters.

#ifndef RETRY_GUARD_CALL_GUARD_STATE_H_
#define RETRY_GUARD_CALL_GUARD_STATE_H_

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "retry_guard/call/guard_counters.h"
#include "retry_guard/config/service_config.h"
#include "retry_guard/guard.h"
#include "retry_guard/policy/circuit_breaker.h"
#include "retry_guard/policy/clock.h"
#include "retry_guard/policy/method_policy.h"
#include "retry_guard/policy/mutex.h"
#include "retry_guard/policy/retry_budget.h"

namespace retry_guard::internal {

// Thread-safe. No lock on the way of a call, but for the first one of a method
// that has a breaker of its own.
class GuardState {
 public:
  GuardState();

  RetryBudget& budget() { return budget_; }
  GuardCounters& counters() { return counters_; }

  // The breaker that the methods share.
  CircuitBreaker& breaker() { return breaker_; }

  // The one that `method` has for itself; made when first asked for.
  CircuitBreaker& OwnBreaker(std::string_view method);

  // In force right now; valid as long as the guard.
  const GuardPolicy& policy() const {
    return *policy_.load(std::memory_order_acquire);
  }

  bool retries_enabled() const {
    return retries_enabled_.load(std::memory_order_relaxed);
  }
  void SetRetriesEnabled(bool enabled) {
    retries_enabled_.store(enabled, std::memory_order_relaxed);
  }

  // The `config` of a channel is in force. The first one that says anything of
  // the guard decides for all channels, and its channel may change its mind;
  // false: a different channel decided otherwise, and nothing changed.
  bool Configure(const void* channel, const ServiceConfig& config,
                 absl::Time now);

  // The channel is gone: another one may decide from now on.
  void Forget(const void* channel);

  GuardSnapshot Snapshot(absl::Time now) const;

  // The clock of the channel that used the guard last; steady times of
  // different clocks cannot be compared, so a guard is for channels of one.
  void SetClock(std::shared_ptr<Clock> clock);
  absl::Time Now() const;

 private:
  const GuardPolicy& Keep(const GuardPolicy& wanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  RetryBudget budget_;
  CircuitBreaker breaker_;
  GuardCounters counters_;
  std::atomic<bool> retries_enabled_{true};
  std::atomic<const GuardPolicy*> policy_;

  mutable Mutex mu_;
  std::shared_ptr<Clock> clock_ ABSL_GUARDED_BY(mu_);
  const void* owner_ ABSL_GUARDED_BY(mu_) = nullptr;
  // Every policy that was ever in force: a call may still read an old one.
  std::vector<std::unique_ptr<const GuardPolicy>> policies_
      ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, std::unique_ptr<CircuitBreaker>>
      own_breakers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_GUARD_STATE_H_
