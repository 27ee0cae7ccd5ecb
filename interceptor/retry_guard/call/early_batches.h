// A call's batches that come before the one that starts it.

#ifndef RETRY_GUARD_CALL_EARLY_BATCHES_H_
#define RETRY_GUARD_CALL_EARLY_BATCHES_H_

#include <grpcpp/support/interceptor.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "retry_guard/policy/clock.h"
#include "retry_guard/policy/mutex.h"

namespace retry_guard::internal {

// A corked stream asks for what it will receive before it has sent anything. If
// such a batch went on to core, and the call was hijacked afterwards, it would
// never end; so it is held, until the call starts or is over before that.
//
// Thread-safe. Shared with a timer, which may be there longer than the call.
class EarlyBatches : public std::enable_shared_from_this<EarlyBatches> {
 public:
  using Batch = grpc::experimental::InterceptorBatchMethods*;

  explicit EarlyBatches(std::shared_ptr<Clock> clock)
      : clock_(std::move(clock)) {}

  // False: the call is over already, and the batch is for core to end.
  bool Hold(Batch batch, absl::Time deadline) {
    MutexLock lock(mu_);
    if (released_) return false;
    held_.push_back(batch);
    if (timer_ == nullptr && deadline != absl::InfiniteFuture()) {
      // Never runs in here.
      timer_ =
          clock_->StartTimer(deadline, [self = shared_from_this()](bool fired) {
            if (fired) self->Release();
          });
    }
    return true;
  }

  // For the call that starts: those that were held.
  std::vector<Batch> Take() {
    std::vector<Batch> taken;
    std::shared_ptr<Clock::Timer> timer;
    {
      MutexLock lock(mu_);
      taken.swap(held_);
      timer.swap(timer_);
    }
    if (timer != nullptr) timer->Cancel();
    return taken;
  }

  // The caller has cancelled, on a thread that holds a lock of gRPC's: lets
  // them go on another one.
  void ReleaseSoon() {
    {
      MutexLock lock(mu_);
      if (held_.empty()) return;
      released_ = true;
    }
    clock_->StartTimer(absl::InfinitePast(),
                       [self = shared_from_this()](bool) { self->Release(); });
  }

 private:
  void Release() {
    {
      MutexLock lock(mu_);
      released_ = true;
    }
    for (auto* const batch : Take()) batch->Proceed();
  }

  const std::shared_ptr<Clock> clock_;
  Mutex mu_;
  bool released_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Batch> held_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Clock::Timer> timer_ ABSL_GUARDED_BY(mu_);
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_EARLY_BATCHES_H_
