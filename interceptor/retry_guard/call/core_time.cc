#include "retry_guard/call/core_time.h"

#include <algorithm>
#include <cstdint>

namespace retry_guard::internal {

absl::Duration TimeUntil(gpr_timespec deadline) {
  if (IsInfinite(deadline)) return absl::InfiniteDuration();
  const gpr_timespec steady =
      gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC);
  if (gpr_time_cmp(steady, gpr_inf_past(GPR_CLOCK_MONOTONIC)) == 0) {
    return -absl::InfiniteDuration();
  }
  const gpr_timespec now = gpr_now(GPR_CLOCK_MONOTONIC);
  return absl::Seconds(steady.tv_sec - now.tv_sec) +
         absl::Nanoseconds(steady.tv_nsec - now.tv_nsec);
}

gpr_timespec CoreTimeAfter(absl::Duration wait) {
  if (wait == absl::InfiniteDuration()) {
    return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  }
  // Rounded up: a timer that is early would cut a delay short.
  const absl::Duration positive = std::max(wait, absl::ZeroDuration());
  const int64_t nanos =
      absl::ToInt64Nanoseconds(absl::Ceil(positive, absl::Nanoseconds(1)));
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(nanos, GPR_TIMESPAN));
}

}  // namespace retry_guard::internal
