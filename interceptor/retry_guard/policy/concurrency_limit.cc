#include "retry_guard/policy/concurrency_limit.h"

#include <algorithm>

namespace retry_guard {

ConcurrencyLimit::ConcurrencyLimit(int places, absl::Duration max_delay)
    : places_(std::max(1, places)), max_delay_(max_delay) {}

std::optional<absl::Duration> ConcurrencyLimit::Take(absl::Time now) {
  int taken = in_use_.load(std::memory_order_relaxed);
  while (taken < places_) {
    if (in_use_.compare_exchange_weak(taken, taken + 1,
                                      std::memory_order_relaxed)) {
      return std::nullopt;
    }
  }
  return Appointment(now);
}

void ConcurrencyLimit::GiveBack(absl::Duration held) {
  const int64_t sample = std::max<int64_t>(0, absl::ToInt64Nanoseconds(held));
  // One that races with another may be lost: it is an average.
  const int64_t old = held_nanos_.load(std::memory_order_relaxed);
  held_nanos_.store(old + (sample - old) / 8, std::memory_order_relaxed);
  in_use_.fetch_sub(1, std::memory_order_relaxed);
}

absl::Duration ConcurrencyLimit::Appointment(absl::Time now) {
  const absl::Duration interval =
      absl::Nanoseconds(held_nanos_.load(std::memory_order_relaxed)) / places_;
  MutexLock lock(mu_);
  // Where the line is longer than max_delay, its end is told the same time.
  last_appointment_ =
      std::min(std::max(last_appointment_, now) + interval, now + max_delay_);
  return std::max(last_appointment_ - now, absl::Milliseconds(1));
}

}  // namespace retry_guard
