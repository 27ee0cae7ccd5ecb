// How a cancellation finds what it has to end: the attempt that runs, or the
// wait between two.

#ifndef RETRY_GUARD_CALL_INTERRUPTION_H_
#define RETRY_GUARD_CALL_INTERRUPTION_H_

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "retry_guard/call/attempt.h"
#include "retry_guard/policy/clock.h"
#include "retry_guard/policy/mutex.h"

namespace retry_guard::internal {

// Thread-safe. One per call. Holds no lock while it cancels anything.
//
// Handles are numbered: a timer may have fired, and the next attempt of the
// call may have failed, before StartTimer has returned its handle to us.
// Storing it then would put a dead handle over the live one, and a later
// cancellation would go to the dead.
class Interruption {
 public:
  // The call's next attempt is about to start. If the call was cancelled, so is
  // the attempt: it ends as soon as it starts.
  void BeginAttempt(const std::shared_ptr<Attempt>& attempt);

  // A wait is about to start; its number.
  uint64_t BeginWait();

  // The timer of wait number `wait`.
  void SetTimer(uint64_t wait, const std::shared_ptr<Clock::Timer>& timer);

  // Cancels the attempt that runs, or cuts the wait short; and whatever would
  // start later.
  void Cancel();

  // Cuts a wait short, now or when it starts, but leaves attempts alone.
  void EndWait();

 private:
  Mutex mu_;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool wait_ended_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t number_ ABSL_GUARDED_BY(mu_) = 0;
  std::shared_ptr<Attempt> attempt_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Clock::Timer> timer_ ABSL_GUARDED_BY(mu_);
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_INTERRUPTION_H_
