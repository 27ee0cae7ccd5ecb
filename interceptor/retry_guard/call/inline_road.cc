#include <utility>

#include "retry_guard/call/blocking_loop.h"
#include "retry_guard/call/delivery.h"
#include "retry_guard/call/road.h"

namespace retry_guard::internal {
namespace {

using grpc::experimental::InterceptorBatchMethods;

// For a unary call of the blocking API whose first attempt needs what the
// caller's own context does not have.
class InlineRoad final : public BlockingLoop {
 public:
  explicit InlineRoad(std::shared_ptr<CallCore> core)
      : BlockingLoop(std::move(core)) {}

  void OnStart(InterceptorBatchMethods* batch) override {
    TakeRequest(batch);
    TakeTarget(batch);
    batch->Hijack();  // the batch comes again, to receive
  }

  void OnBatch(InterceptorBatchMethods* batch) override {
    if (BatchWants(batch).status) {
      plan_.reply = core_->ReplyAt(batch->GetRecvMessage());
      answer_ = Run();
      Deliver(batch, answer_);
    }
    batch->Proceed();
  }

 private:
  Answer answer_;
};

}  // namespace

std::shared_ptr<Road> MakeInlineRoad(std::shared_ptr<CallCore> core) {
  return std::make_shared<InlineRoad>(std::move(core));
}

}  // namespace retry_guard::internal
