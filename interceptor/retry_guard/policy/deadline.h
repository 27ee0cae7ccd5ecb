// Whether a retry still fits the caller's deadline.

#ifndef RETRY_GUARD_POLICY_DEADLINE_H_
#define RETRY_GUARD_POLICY_DEADLINE_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace retry_guard {

// delay + expected <= remaining. `remaining` may be infinite (no deadline).
bool RetryFits(absl::Duration delay, absl::Duration expected,
               absl::Duration remaining);

// What a successful attempt of one method takes: a moving average in which the
// newest sample weighs 1/8 (the first one weighs all). Thread-safe, lock-free;
// a sample that races with another may be lost.
class AttemptTimeEstimate {
 public:
  void Record(absl::Duration took);

  // Zero before the first sample: an unknown method is given the benefit.
  absl::Duration Expected() const;

 private:
  std::atomic<int64_t> nanos_{-1};  // -1: no sample yet
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_DEADLINE_H_
