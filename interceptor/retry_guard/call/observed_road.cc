#include <atomic>
#include <utility>

#include "retry_guard/call/road.h"

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

  void OnBatch(InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      headers_received_.store(true, std::memory_order_release);
    }
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_STATUS)) {
      core_->AfterAttempt({*batch->GetRecvStatus(), *core_->caller(),
                           headers_received_.load(std::memory_order_acquire)});
    }
    batch->Proceed();
  }

  // The call cancels itself.
  void OnCancel() override { core_->SetCancelled(); }

 private:
  const std::shared_ptr<CallCore> core_;
  std::atomic<bool> headers_received_{false};
};

}  // namespace

std::shared_ptr<Road> MakeObservedRoad(std::shared_ptr<CallCore> core) {
  return std::make_shared<ObservedRoad>(std::move(core));
}

}  // namespace retry_guard::internal
