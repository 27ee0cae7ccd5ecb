// Time on the steady clock, as a duration since its start (Linux: since boot),
// so that it means the same in the parent and in the backend.

#ifndef EXAMPLES_STORM_STEADY_TIME_H_
#define EXAMPLES_STORM_STEADY_TIME_H_

#include <chrono>
#include <thread>

#include "absl/time/time.h"

namespace storm {

inline absl::Duration SteadyNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

inline void SleepUntil(absl::Duration time) {
  std::this_thread::sleep_until(
      std::chrono::steady_clock::time_point(absl::ToChronoNanoseconds(time)));
}

}  // namespace storm

#endif  // EXAMPLES_STORM_STEADY_TIME_H_
