// The counters of a GuardSnapshot.

#ifndef RETRY_GUARD_CALL_GUARD_COUNTERS_H_
#define RETRY_GUARD_CALL_GUARD_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "retry_guard/guard.h"
#include "retry_guard/policy/decision.h"
#include "retry_guard/policy/striped.h"

namespace retry_guard::internal {

// Thread-safe, lock-free. Threads count on lines of their own, so that two of
// them do not slow each other down.
class GuardCounters {
 public:
  void CountAttempt(bool first);
  void CountSuccess(int attempts);
  void CountRefusal(Reason reason);
  void CountBackoff(absl::Duration waited);

  // Adds everything to `snapshot`.
  void AddTo(GuardSnapshot& snapshot) const;

 private:
  struct alignas(kCacheLine) Stripe {
    std::atomic<int64_t> calls{0};
    std::atomic<int64_t> attempts{0};
    std::array<std::atomic<int64_t>, 22> successes = {};
    std::array<std::atomic<int64_t>, kReasonCount> refusals = {};
    std::atomic<int64_t> backoff_nanos{0};
  };

  Stripe& Mine() { return stripes_[ThreadStripe() % stripes_.size()]; }

  std::vector<Stripe> stripes_ = std::vector<Stripe>(StripeCount());
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_GUARD_COUNTERS_H_
