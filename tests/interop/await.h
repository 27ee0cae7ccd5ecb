// Waiting for what another process does, which cannot notify us.

#ifndef RETRY_GUARD_TESTS_INTEROP_AWAIT_H_
#define RETRY_GUARD_TESTS_INTEROP_AWAIT_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace retry_guard::interop {

// Blocks until `condition()` is true; false after `timeout`.
template <typename Condition>
bool Await(const Condition& condition,
           absl::Duration timeout = absl::Seconds(20)) {
  const absl::Time until = absl::Now() + timeout;
  while (!condition()) {
    if (absl::Now() > until) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

}  // namespace retry_guard::interop

#endif  // RETRY_GUARD_TESTS_INTEROP_AWAIT_H_
