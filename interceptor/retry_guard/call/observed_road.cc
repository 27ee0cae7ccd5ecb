#include <grpc/grpc.h>

#include <atomic>
#include <memory>
#include <utility>

#include "retry_guard/call/road.h"
#include "retry_guard/policy/clock.h"

namespace retry_guard::internal {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

// The call that the application made is itself the only attempt; breaker,
// budget, counters and observers learn how it ended.
class ObservedRoad final : public Road {
 public:
  explicit ObservedRoad(std::shared_ptr<CallCore> core)
      : core_(std::move(core)) {}

  // A stream that is dropped ends when nobody holds its call any more: the
  // timer must not.
  ~ObservedRoad() override {
    if (deadline_ != nullptr) deadline_->Cancel();
  }

  void OnStart(InterceptorBatchMethods* batch) override {
    StartDeadline();
    batch->Proceed();
  }

  void OnBatch(InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      // Has gRPC make its map of them now: when the status comes, on another
      // thread, the application may be reading it.
      batch->GetRecvInitialMetadata();
      headers_received_.store(true, std::memory_order_release);
    }
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_STATUS)) {
      ended_.store(true, std::memory_order_release);
      if (deadline_ != nullptr) deadline_->Cancel();
      core_->AfterAttempt({*batch->GetRecvStatus(), *core_->caller(),
                           headers_received_.load(std::memory_order_acquire)});
    }
    batch->Proceed();
  }

  // The call cancels itself.
  void OnCancel() override {}

  void OnDropped() override {
    if (!ended_.load(std::memory_order_acquire)) core_->Abandon();
  }

 private:
  // The call was made with the deadline of its context; a tighter one, of the
  // config or of the inbound call, has to be kept from outside.
  void StartDeadline() {
    const absl::Time when = core_->deadline_unknown_to_core();
    if (when == absl::InfiniteFuture()) return;
    grpc_call* const call = core_->caller()->c_call();
    grpc_call_ref(call);
    deadline_ = core_->channel().clock().StartTimer(when, [call](bool fired) {
      if (fired) {
        grpc_call_cancel_with_status(call, GRPC_STATUS_DEADLINE_EXCEEDED,
                                     "Deadline Exceeded", nullptr);
      }
      grpc_call_unref(call);
    });
  }

  const std::shared_ptr<CallCore> core_;
  std::shared_ptr<Clock::Timer> deadline_;
  std::atomic<bool> headers_received_{false};
  std::atomic<bool> ended_{false};
};

}  // namespace

std::shared_ptr<Road> MakeObservedRoad(std::shared_ptr<CallCore> core) {
  return std::make_shared<ObservedRoad>(std::move(core));
}

}  // namespace retry_guard::internal
