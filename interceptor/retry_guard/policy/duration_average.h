// What something takes, as a moving average.

#ifndef RETRY_GUARD_POLICY_DURATION_AVERAGE_H_
#define RETRY_GUARD_POLICY_DURATION_AVERAGE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace retry_guard {

// The newest sample weighs 1/8. Thread-safe, lock-free; a sample that races
// with another may be lost. Negative samples count as zero.
class DurationAverage {
 public:
  // Zero until the first sample, which then weighs all.
  DurationAverage() = default;

  // `start` until the first sample, and part of the average from then on.
  explicit DurationAverage(absl::Duration start)
      : nanos_(absl::ToInt64Nanoseconds(start)) {}

  void Record(absl::Duration took) {
    const int64_t sample = std::max<int64_t>(0, absl::ToInt64Nanoseconds(took));
    const int64_t old = nanos_.load(std::memory_order_relaxed);
    nanos_.store(old < 0 ? sample : old + (sample - old) / 8,
                 std::memory_order_relaxed);
  }

  absl::Duration value() const {
    return absl::Nanoseconds(
        std::max<int64_t>(0, nanos_.load(std::memory_order_relaxed)));
  }

 private:
  std::atomic<int64_t> nanos_{-1};  // -1: no sample yet
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_DURATION_AVERAGE_H_
