// Keeps a call's other batches back until the hijack is done.

#ifndef RETRY_GUARD_CALL_HIJACK_GATE_H_
#define RETRY_GUARD_CALL_HIJACK_GATE_H_

#include <grpcpp/support/interceptor.h>

#include <vector>

#include "absl/base/thread_annotations.h"
#include "retry_guard/policy/mutex.h"

namespace retry_guard::internal {

// A batch that goes on while another one is being hijacked, on another thread
// (an interceptor before ours may see to that), would reach core, where its
// call was never started: it would not end. Thread-safe.
class HijackGate {
 public:
  // Hijacks by `start`, which comes again to receive; then lets the others go
  // on, which come again as well. What it is a member of must be kept by the
  // caller: the call may end in here.
  void Hijack(grpc::experimental::InterceptorBatchMethods* start) {
    start->Hijack();
    std::vector<grpc::experimental::InterceptorBatchMethods*> held;
    {
      MutexLock lock(mu_);
      hijacked_ = true;
      held.swap(held_);
    }
    for (auto* const batch : held) batch->Proceed();
  }

  // For a batch that comes to send: lets it go on, now or after the hijack.
  void Pass(grpc::experimental::InterceptorBatchMethods* batch) {
    {
      MutexLock lock(mu_);
      if (!hijacked_) {
        held_.push_back(batch);
        return;
      }
    }
    batch->Proceed();
  }

  // For a call that was hijacked before it came here.
  void Open() {
    MutexLock lock(mu_);
    hijacked_ = true;
  }

 private:
  Mutex mu_;
  bool hijacked_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<grpc::experimental::InterceptorBatchMethods*> held_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_HIJACK_GATE_H_
