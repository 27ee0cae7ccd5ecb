#include <utility>

#include "retry_guard/call/delivery.h"
#include "retry_guard/call/hijack_gate.h"
#include "retry_guard/call/road.h"

namespace retry_guard::internal {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

// The answer is known before anything is sent.
class RefusedRoad final : public Road,
                          public std::enable_shared_from_this<RefusedRoad> {
 public:
  explicit RefusedRoad(KeptAnswer answer)
      : answer_(Answer::FromKept(std::move(answer))) {}

  void OnBatch(InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      const auto self = shared_from_this();  // the call may end in here
      gate_.Hijack(batch);
      return;
    }
    // Nothing that a stream writes arrives anywhere.
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      batch->FailHijackedSendMessage();
    }
    if (!BatchWants(batch).anything()) {
      gate_.Pass(batch);
      return;
    }
    Deliver(batch, answer_);
    batch->Proceed();
  }

  void OnCancel() override {}

 private:
  const Answer answer_;
  HijackGate gate_;
};

}  // namespace

std::shared_ptr<Road> MakeRefusedRoad(KeptAnswer answer) {
  return std::make_shared<RefusedRoad>(std::move(answer));
}

}  // namespace retry_guard::internal
