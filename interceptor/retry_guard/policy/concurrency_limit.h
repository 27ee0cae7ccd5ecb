// How many calls a server works on at a time, and when those that it turns away
// should come again.
//
// A server that is overloaded is the one that knows it, and how long its line
// is; a client can only guess. The line here is one of appointments: a place
// becomes free every (time that a place is held) / (places) on average, and
// each call that is turned away is told a time of its own, one such interval
// behind the one before. So they come back one by one and not as the herd that
// they left as.

#ifndef RETRY_GUARD_POLICY_CONCURRENCY_LIMIT_H_
#define RETRY_GUARD_POLICY_CONCURRENCY_LIMIT_H_

#include <atomic>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "retry_guard/policy/duration_average.h"
#include "retry_guard/policy/export.h"
#include "retry_guard/policy/mutex.h"

namespace retry_guard {

// Thread-safe. A call that gets a place takes no lock.
class RETRY_GUARD_EXPORT ConcurrencyLimit {
 public:
  // `places` >= 1 (less is taken as 1). Delays are at most `max_delay` (> 0).
  ConcurrencyLimit(int places, absl::Duration max_delay);

  // Takes a place: nothing. All taken: after how long to come again, more than
  // zero.
  std::optional<absl::Duration> Take(absl::Time now);

  // Gives back a place that was held for `held`.
  void GiveBack(absl::Duration held);

  // Places taken right now.
  int in_use() const { return in_use_.load(std::memory_order_relaxed); }

 private:
  absl::Duration Appointment(absl::Time now);

  const int places_;
  const absl::Duration max_delay_;
  std::atomic<int> in_use_{0};
  DurationAverage held_{absl::Milliseconds(100)};

  Mutex mu_;
  absl::Time last_appointment_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_CONCURRENCY_LIMIT_H_
