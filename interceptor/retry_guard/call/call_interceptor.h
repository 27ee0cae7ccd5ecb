// The interceptor of one call: chooses its road and hands it the call's
// batches.

#ifndef RETRY_GUARD_CALL_CALL_INTERCEPTOR_H_
#define RETRY_GUARD_CALL_CALL_INTERCEPTOR_H_

#include <grpcpp/support/client_interceptor.h>
#include <grpcpp/support/interceptor.h>

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "retry_guard/call/call_core.h"
#include "retry_guard/call/channel_state.h"
#include "retry_guard/call/road.h"

namespace retry_guard::internal {

// Owned by the caller's ClientContext. That may be destroyed while an attempt
// is in flight; so what attempts and timers touch belongs to the road, which
// they share.
class CallInterceptor final : public grpc::experimental::Interceptor {
 public:
  CallInterceptor(std::shared_ptr<ChannelState> channel,
                  grpc::experimental::ClientRpcInfo* info);

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override;

 private:
  // `start` is the batch that sends the call's initial metadata; `reply` the
  // application's reply object, null as long as it is not known.
  void OpenRoad(grpc::experimental::InterceptorBatchMethods* start,
                const void* reply);
  std::shared_ptr<Road> ChooseRoad(
      grpc::experimental::InterceptorBatchMethods* start, const void* reply);

  bool CanHandleMessages(grpc::experimental::InterceptorBatchMethods* start,
                         const void* reply);

  // Holds a batch that cannot go on yet; true if it did.
  bool Hold(grpc::experimental::InterceptorBatchMethods* batch, bool starts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<CallCore> core_;
  const bool unary_;

  // Only for a cancellation that comes while the road is being chosen, on
  // another thread.
  absl::Mutex mu_;
  std::shared_ptr<Road> road_ ABSL_GUARDED_BY(mu_);
  // A unary call's batches that came before its road was open. If they went on,
  // and the call was hijacked afterwards, they would never end.
  std::vector<grpc::experimental::InterceptorBatchMethods*> early_
      ABSL_GUARDED_BY(mu_);
  // The batch that starts the call, held until the next one shows what the
  // reply object is: a reactor's first batch does not have it.
  grpc::experimental::InterceptorBatchMethods* start_ ABSL_GUARDED_BY(mu_) =
      nullptr;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_CALL_INTERCEPTOR_H_
