#include <memory>
#include <utility>

#include "retry_guard/call/attempt_loop.h"
#include "retry_guard/call/blocking_loop.h"
#include "retry_guard/call/own_attempt.h"
#include "retry_guard/call/road.h"

namespace retry_guard::internal {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

bool HasEnded(InterceptorBatchMethods* batch) {
  return batch->QueryInterceptionHookPoint(
      InterceptionHookPoints::POST_RECV_STATUS);
}

// The first attempt is the call itself; `Loop` makes all others.
template <typename Loop>
class Takeover : public Loop {
 public:
  void OnStart(InterceptorBatchMethods* batch) override {
    Loop::TakeRequest(batch);
    first_.Start(batch);
    batch->Proceed();
  }

 protected:
  template <typename... Arguments>
  explicit Takeover(Arguments&&... arguments)
      : Loop(std::forward<Arguments>(arguments)...), first_(*this->core_) {}

  void PlanFurtherAttempts(InterceptorBatchMethods* batch) {
    Loop::TakeTarget(batch);
    this->plan_.reply = first_.reply();
  }

  OwnAttempt first_;
  Answer answer_;  // lives as long as the caller's context
};

class AsyncTakeover final : public Takeover<AttemptLoop> {
 public:
  AsyncTakeover(std::shared_ptr<CallCore> core, bool polled)
      : Takeover(std::move(core), /*report_headers=*/false), polled_(polled) {}

  void OnBatch(InterceptorBatchMethods* batch) override {
    if (!HasEnded(batch)) {
      batch->Proceed();
      return;
    }
    const auto self = shared_from_this();  // Proceed may end the caller
    const CallCore::Next next = first_.End(batch, /*seen_late=*/polled_);
    if (!next.retry) {
      batch->Proceed();
      return;
    }
    held_ = batch;
    PlanFurtherAttempts(batch);
    RetryAt(next.at);
  }

 private:
  bool committed() override { return false; }

  void OnAnswer(Answer answer) override {
    answer_ = std::move(answer);
    first_.Overwrite(held_, answer_);
    held_->Proceed();
  }

  const bool polled_;  // by the application, when it likes
  InterceptorBatchMethods* held_ = nullptr;
};

class BlockingTakeover final : public Takeover<BlockingLoop> {
 public:
  explicit BlockingTakeover(std::shared_ptr<CallCore> core)
      : Takeover(std::move(core)) {}

  void OnBatch(InterceptorBatchMethods* batch) override {
    if (HasEnded(batch)) {
      const CallCore::Next next = first_.End(batch, /*seen_late=*/false);
      if (next.retry) {
        PlanFurtherAttempts(batch);
        answer_ = RetryAt(next.at);
        first_.Overwrite(batch, answer_);
      }
    }
    batch->Proceed();
  }
};

}  // namespace

std::shared_ptr<Road> MakeTakeoverRoad(std::shared_ptr<CallCore> core,
                                       bool polled) {
  return std::make_shared<AsyncTakeover>(std::move(core), polled);
}

std::shared_ptr<Road> MakeBlockingTakeoverRoad(std::shared_ptr<CallCore> core) {
  return std::make_shared<BlockingTakeover>(std::move(core));
}

}  // namespace retry_guard::internal
