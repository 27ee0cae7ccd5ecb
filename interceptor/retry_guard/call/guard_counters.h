// The counters of a GuardSnapshot.

#ifndef RETRY_GUARD_CALL_GUARD_COUNTERS_H_
#define RETRY_GUARD_CALL_GUARD_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "retry_guard/guard.h"
#include "retry_guard/policy/decision.h"

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
  static constexpr size_t kStripes = 8;

  struct alignas(64) Stripe {
    std::atomic<int64_t> calls{0};
    std::atomic<int64_t> attempts{0};
    std::array<std::atomic<int64_t>, 22> successes = {};
    std::array<std::atomic<int64_t>, kReasonCount> refusals = {};
    std::atomic<int64_t> backoff_nanos{0};
  };

  Stripe& Mine();

  std::array<Stripe, kStripes> stripes_;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_GUARD_COUNTERS_H_
