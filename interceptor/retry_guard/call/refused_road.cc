#include <utility>

#include "retry_guard/call/delivery.h"
#include "retry_guard/call/hijack_gate.h"
#include "retry_guard/call/road.h"
#include "retry_guard/call/stream_write.h"

namespace retry_guard::internal {
namespace {

using grpc::experimental::InterceptorBatchMethods;

// The answer is known before anything is sent.
class RefusedRoad final : public Road,
                          public std::enable_shared_from_this<RefusedRoad> {
 public:
  RefusedRoad(KeptAnswer answer, bool is_stream)
      : is_stream_(is_stream), answer_(Answer::FromKept(std::move(answer))) {}

  void OnStart(InterceptorBatchMethods* batch) override {
    const auto self = shared_from_this();  // the call may end in here
    // Nothing that a stream writes arrives anywhere.
    if (is_stream_) FailWrite(batch);
    gate_.Hijack(batch);
  }

  void OnBatch(InterceptorBatchMethods* batch) override {
    if (is_stream_) FailWrite(batch);
    if (!BatchWants(batch).anything()) {
      gate_.Pass(batch);
      return;
    }
    Deliver(batch, answer_);
    batch->Proceed();
  }

  void OnCancel() override {}

 private:
  const bool is_stream_;
  const Answer answer_;
  HijackGate gate_;
};

}  // namespace

std::shared_ptr<Road> MakeRefusedRoad(KeptAnswer answer, bool is_stream) {
  return std::make_shared<RefusedRoad>(std::move(answer), is_stream);
}

}  // namespace retry_guard::internal
