// The interceptor of one call: chooses its road and hands it the call's
// batches.

#ifndef RETRY_GUARD_CALL_CALL_INTERCEPTOR_H_
#define RETRY_GUARD_CALL_CALL_INTERCEPTOR_H_

#include <grpcpp/support/client_interceptor.h>
#include <grpcpp/support/interceptor.h>

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "retry_guard/call/call_core.h"
#include "retry_guard/call/channel_state.h"
#include "retry_guard/call/early_batches.h"
#include "retry_guard/call/road.h"
#include "retry_guard/policy/mutex.h"

namespace retry_guard::internal {

// Owned by the caller's ClientContext. That may be destroyed while an attempt
// is in flight; so what attempts and timers touch belongs to the road, which
// they share.
class CallInterceptor final : public grpc::experimental::Interceptor {
 public:
  CallInterceptor(std::shared_ptr<ChannelState> channel,
                  grpc::experimental::ClientRpcInfo* info);
  ~CallInterceptor() override;

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override;

 private:
  using Batch = grpc::experimental::InterceptorBatchMethods*;

  // What to do with a batch that comes before the road is open. Once one has
  // started the opening, all others wait for the road: what would go on to core
  // now, whatever the reason, would miss the hijack.
  enum class Early { kHeld, kStarts, kGoesOn };
  Early TakeEarly(Batch batch, bool starts, Batch* start)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MustWaitForReply(Batch start) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  EarlyBatches& early() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // `start` is the batch that sends the call's initial metadata; `reply` the
  // application's reply object, null as long as it is not known.
  void OpenRoad(Batch start, const void* reply);
  std::shared_ptr<Road> ChooseRoad(Batch start, const void* reply);
  std::shared_ptr<Road> ChooseStreamRoad(Batch start);
  bool CanHandleMessages(Batch start, const void* reply);

  const std::shared_ptr<CallCore> core_;
  const bool unary_;

  // Only for a cancellation that comes while the road is being chosen, on
  // another thread.
  Mutex mu_;
  std::shared_ptr<Road> road_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<EarlyBatches> early_ ABSL_GUARDED_BY(mu_);  // null: none
  bool opening_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Batch> waiting_ ABSL_GUARDED_BY(mu_);  // for the road
  // The batch that starts a unary call, held until the next one shows what the
  // reply object is: a reactor's first batch does not have it.
  Batch start_ ABSL_GUARDED_BY(mu_) = nullptr;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_CALL_INTERCEPTOR_H_
