// The clock that production runs on.

#ifndef RETRY_GUARD_CALL_REAL_CLOCK_H_
#define RETRY_GUARD_CALL_REAL_CLOCK_H_

#include <memory>

#include "retry_guard/policy/clock.h"

namespace retry_guard::internal {

// The steady clock, and grpc::Alarm for timers: they cost no thread of their
// own. One for the whole process.
std::shared_ptr<Clock> RealClock();

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_REAL_CLOCK_H_
