// Whether a retry still fits the caller's deadline.

#ifndef RETRY_GUARD_POLICY_DEADLINE_H_
#define RETRY_GUARD_POLICY_DEADLINE_H_

#include "absl/time/time.h"
#include "retry_guard/policy/duration_average.h"
#include "retry_guard/policy/export.h"

namespace retry_guard {

// delay + expected <= remaining. `remaining` may be infinite (no deadline).
RETRY_GUARD_EXPORT bool RetryFits(absl::Duration delay, absl::Duration expected,
                                  absl::Duration remaining);

// What a successful attempt of one method takes. Thread-safe, lock-free.
class AttemptTimeEstimate {
 public:
  void Record(absl::Duration took) { average_.Record(took); }

  // For an attempt whose end was seen late: it took at most that long. Brings
  // the estimate down, or begins it, but never up.
  void RecordAtMost(absl::Duration took) {
    const absl::Duration expected = Expected();
    if (expected == absl::ZeroDuration() || took < expected) Record(took);
  }

  // Zero before the first sample: an unknown method is given the benefit.
  absl::Duration Expected() const { return average_.value(); }

 private:
  DurationAverage average_;
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_DEADLINE_H_
