// Between gRPC core's time and ours.

#ifndef RETRY_GUARD_CALL_CORE_TIME_H_
#define RETRY_GUARD_CALL_CORE_TIME_H_

#include <grpc/support/time.h>

#include "absl/time/time.h"

namespace retry_guard::internal {

inline bool IsInfinite(gpr_timespec time) {
  return gpr_time_cmp(time, gpr_inf_future(time.clock_type)) == 0;
}

// How long it is until `deadline`, whatever its clock; negative for the past,
// infinite for none.
absl::Duration TimeUntil(gpr_timespec deadline);

// The point in time that is `wait` from now, on core's steady clock.
gpr_timespec CoreTimeAfter(absl::Duration wait);

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_CORE_TIME_H_
