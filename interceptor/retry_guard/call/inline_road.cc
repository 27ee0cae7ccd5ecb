#include <optional>
#include <utility>

#include "retry_guard/call/blocking_attempts.h"
#include "retry_guard/call/delivery.h"
#include "retry_guard/call/interruption.h"
#include "retry_guard/call/road.h"
#include "retry_guard/call/unary_attempt.h"

namespace retry_guard::internal {
namespace {

using grpc::experimental::InterceptorBatchMethods;

// For a unary call of the blocking API that cannot be its own first attempt.
class InlineRoad final : public Road {
 public:
  explicit InlineRoad(std::shared_ptr<CallCore> core)
      : core_(std::move(core)) {}

  void OnStart(InterceptorBatchMethods* batch) override {
    below_ = batch->GetInterceptedChannel();
    plan_.target = core_->TargetBelow(below_.get());
    plan_.TakeRequest(batch, *core_, /*caller_waits=*/true);
    batch->Hijack();  // the batch comes again, to receive
  }

  void OnBatch(InterceptorBatchMethods* batch) override {
    if (BatchWants(batch).status) {
      plan_.reply = core_->ReplyAt(batch->GetRecvMessage());
      answer_ = RunBlockingAttempts(core_, interruption_, plan_, std::nullopt);
      Deliver(batch, answer_);
    }
    batch->Proceed();
  }

  void OnCancel() override { interruption_->Cancel(); }

 private:
  const std::shared_ptr<CallCore> core_;
  const std::shared_ptr<Interruption> interruption_ =
      std::make_shared<Interruption>();
  std::unique_ptr<grpc::ChannelInterface> below_;
  UnaryPlan plan_;
  Answer answer_;
};

}  // namespace

std::shared_ptr<Road> MakeInlineRoad(std::shared_ptr<CallCore> core) {
  return std::make_shared<InlineRoad>(std::move(core));
}

}  // namespace retry_guard::internal
