// A clock that moves only by hand.
//
//   auto clock = std::make_shared<retry_guard::testing::ManualClock>();
//   options.clock = clock;
//   ... start a call whose first attempt fails ...
//   clock->AwaitTimers(1);                // it is waiting now
//   clock->Advance(absl::Seconds(1));     // its retry is sent
//
// It rules backoff, breaker, budget and estimates. What gRPC itself times, the
// deadline of an attempt in flight, stays real.

#ifndef RETRY_GUARD_TESTING_MANUAL_CLOCK_H_
#define RETRY_GUARD_TESTING_MANUAL_CLOCK_H_

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "retry_guard/policy/clock.h"
#include "retry_guard/policy/export.h"

namespace retry_guard::testing {

// Thread-safe.
class RETRY_GUARD_EXPORT ManualClock final : public Clock {
 public:
  // Starts at 2001-09-09 01:46:40 UTC (a billion seconds) unless told.
  explicit ManualClock(absl::Time start = absl::FromUnixSeconds(1'000'000'000));
  // Timers that still wait are cancelled.
  ~ManualClock() override;

  absl::Time Now() const override;
  absl::Time WallNow() const override { return Now(); }

  // The callbacks run on a thread of the clock's own, one after the other, in
  // the order of their times.
  std::shared_ptr<Timer> StartTimer(
      absl::Time when, absl::AnyInvocable<void(bool fired)> callback) override;

  // Moves the time, `by` >= 0, and runs what is due; returns when those
  // callbacks have returned. They see the new time, not that at which they were
  // due. Not to be called from a callback.
  void Advance(absl::Duration by);

  // Timers that wait.
  int pending_timers() const;

  // Blocks until at least `count` timers wait; false if `timeout` (real time)
  // is over first.
  bool AwaitTimers(int count, absl::Duration timeout = absl::Seconds(20)) const;

  // When the next timer is due; infinite if none waits.
  absl::Time next_timer() const;

 private:
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace retry_guard::testing

#endif  // RETRY_GUARD_TESTING_MANUAL_CLOCK_H_
