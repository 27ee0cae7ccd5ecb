// Time as an object: where a call reads the time and how it waits.
//
// Policies never read a clock; they are handed `now`. Only the edge (the code
// that talks to gRPC) owns a Clock, and a test replaces it by
// testing::ManualClock so that no test ever waits.

#ifndef RETRY_GUARD_POLICY_CLOCK_H_
#define RETRY_GUARD_POLICY_CLOCK_H_

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "retry_guard/policy/export.h"

namespace retry_guard {

// Implementations must be thread-safe.
class RETRY_GUARD_EXPORT Clock {
 public:
  // A timer that was started. Its callback runs exactly once. Dropping the
  // last reference neither cancels nor waits.
  class Timer {
   public:
    virtual ~Timer() = default;

    // Asks for the callback to run now with `fired == false`. Has no effect
    // when the timer fired already: the callback's argument tells who won.
    // Never runs the callback on the calling thread.
    virtual void Cancel() = 0;
  };

  virtual ~Clock() = default;

  // The steady timeline. It never steps, is not the wall clock's, and its
  // values mean something only next to each other.
  virtual absl::Time Now() const = 0;

  // The wall clock. Needed for HTTP dates alone.
  virtual absl::Time WallNow() const = 0;

  // Runs `callback(true)` once `Now() >= when`, or `callback(false)` when it
  // was cancelled before. Never runs it on the calling thread. `when` may be
  // in the past (fires at once) or infinite (fires only by Cancel).
  virtual std::shared_ptr<Timer> StartTimer(
      absl::Time when, absl::AnyInvocable<void(bool fired)> callback) = 0;
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_CLOCK_H_
