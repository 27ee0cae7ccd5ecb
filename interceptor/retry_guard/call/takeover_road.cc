#include <memory>
#include <utility>

#include "retry_guard/call/attempt_loop.h"
#include "retry_guard/call/own_attempt.h"
#include "retry_guard/call/road.h"

namespace retry_guard::internal {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

// For a unary call that is one batch, in any style. The first attempt is the
// call itself. All others run on the callback API, for a blocking caller too:
// its thread waits for gRPC anyway, and an interceptor after ours may show us
// the end of the first attempt on any other.
class TakeoverRoad final : public AttemptLoop {
 public:
  TakeoverRoad(std::shared_ptr<CallCore> core, Caller caller)
      : AttemptLoop(std::move(core), /*report_headers=*/false),
        caller_(caller),
        first_(*core_) {}

  void OnStart(InterceptorBatchMethods* batch) override {
    TakeRequest(batch, /*caller_waits=*/caller_ == Caller::kWaits);
    first_.Start(batch);
    batch->Proceed();
  }

  void OnBatch(InterceptorBatchMethods* batch) override {
    if (!batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_STATUS)) {
      batch->Proceed();
      return;
    }
    const auto self = shared_from_this();  // Proceed may end the caller
    const CallCore::Next next =
        first_.End(batch, /*seen_late=*/caller_ == Caller::kPolls);
    if (!next.retry) {
      batch->Proceed();
      return;
    }
    held_ = batch;
    TakeTarget(batch);
    plan_.reply = first_.reply();
    RetryAt(next.at);
  }

 private:
  bool committed() override { return false; }

  void OnAnswer(Answer answer) override {
    answer_ = std::move(answer);
    first_.Overwrite(held_, answer_);
    held_->Proceed();
  }

  const Caller caller_;
  OwnAttempt first_;
  InterceptorBatchMethods* held_ = nullptr;
  Answer answer_;  // lives as long as the caller's context
};

}  // namespace

std::shared_ptr<Road> MakeTakeoverRoad(std::shared_ptr<CallCore> core,
                                       Caller caller) {
  return std::make_shared<TakeoverRoad>(std::move(core), caller);
}

}  // namespace retry_guard::internal
