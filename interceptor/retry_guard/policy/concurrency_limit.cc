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
  held_.Record(held);
  in_use_.fetch_sub(1, std::memory_order_relaxed);
}

absl::Duration ConcurrencyLimit::Appointment(absl::Time now) {
  const absl::Duration interval = held_.value() / places_;
  MutexLock lock(mu_);
  // Where the line is longer than max_delay, its end is told the same time.
  last_appointment_ =
      std::min(std::max(last_appointment_, now) + interval, now + max_delay_);
  return std::max(last_appointment_ - now, absl::Milliseconds(1));
}

}  // namespace retry_guard
