#include <memory>
#include <utility>

#include "retry_guard/call/attempt_loop.h"
#include "retry_guard/call/blocking_attempts.h"
#include "retry_guard/call/own_attempt.h"
#include "retry_guard/call/road.h"
#include "retry_guard/call/sync_caller.h"

namespace retry_guard::internal {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

// For a unary call that is one batch, in any style. The first attempt is the
// call itself. All others run on the callback API, or, for a blocking caller,
// on its own thread.
class TakeoverRoad final : public AttemptLoop {
 public:
  TakeoverRoad(std::shared_ptr<CallCore> core, const UnaryOps& ops,
               Caller caller)
      : AttemptLoop(std::move(core), /*report_headers=*/false),
        caller_(caller),
        first_(*core_, ops) {}

  void OnStart(InterceptorBatchMethods* batch) override {
    plan_.TakeRequest(batch, *core_,
                      /*caller_waits=*/caller_ == Caller::kWaits);
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
    TakeTarget(batch);
    plan_.reply = first_.reply();
    // An interceptor after ours may bring us here on a thread of its own, which
    // must not wait.
    if (caller_ == Caller::kWaits && CalledFromBlockingApi(batch)) {
      TakeOver(batch,
               RunBlockingAttempts(core_, interruption(), plan_, next.at));
      return;
    }
    held_ = batch;
    RetryAt(next.at);
  }

 private:
  bool committed() override { return false; }

  void OnAnswer(Answer answer) override { TakeOver(held_, std::move(answer)); }

  void TakeOver(InterceptorBatchMethods* batch, Answer answer) {
    answer_ = std::make_unique<Answer>(std::move(answer));
    first_.Overwrite(batch, *answer_);
    batch->Proceed();
  }

  const Caller caller_;
  OwnAttempt first_;
  InterceptorBatchMethods* held_ = nullptr;
  // Lives as long as the caller's context. Few calls need one.
  std::unique_ptr<const Answer> answer_;
};

}  // namespace

std::shared_ptr<Road> MakeTakeoverRoad(std::shared_ptr<CallCore> core,
                                       const UnaryOps& ops, Caller caller) {
  return std::make_shared<TakeoverRoad>(std::move(core), ops, caller);
}

}  // namespace retry_guard::internal
