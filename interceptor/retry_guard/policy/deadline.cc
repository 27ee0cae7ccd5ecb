#include "retry_guard/policy/deadline.h"

#include <algorithm>

namespace retry_guard {

bool RetryFits(absl::Duration delay, absl::Duration expected,
               absl::Duration remaining) {
  return delay + expected <= remaining;
}

void AttemptTimeEstimate::Record(absl::Duration took) {
  const int64_t sample = std::max<int64_t>(0, absl::ToInt64Nanoseconds(took));
  const int64_t old = nanos_.load(std::memory_order_relaxed);
  nanos_.store(old < 0 ? sample : old + (sample - old) / 8,
               std::memory_order_relaxed);
}

absl::Duration AttemptTimeEstimate::Expected() const {
  return absl::Nanoseconds(
      std::max<int64_t>(0, nanos_.load(std::memory_order_relaxed)));
}

}  // namespace retry_guard
