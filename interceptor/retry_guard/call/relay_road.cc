#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "retry_guard/call/attempt_loop.h"
#include "retry_guard/call/delivery.h"
#include "retry_guard/call/hijack_gate.h"
#include "retry_guard/call/road.h"
#include "retry_guard/call/sent_message.h"
#include "retry_guard/policy/mutex.h"

namespace retry_guard::internal {
namespace {

using grpc::experimental::InterceptorBatchMethods;

// For a unary call of any asynchronous style. Its batches are held until there
// is something to deliver; only the rendezvous of batches and answer needs a
// lock.
class RelayRoad final : public AttemptLoop {
 public:
  // If the status is not asked for in the first batch, the application may look
  // at response headers before the end: then they commit the call (gRFC A6).
  RelayRoad(std::shared_ptr<CallCore> core, bool status_in_first_batch)
      : AttemptLoop(std::move(core), /*report_headers=*/!status_in_first_batch),
        headers_commit_(!status_in_first_batch) {}

  void OnStart(InterceptorBatchMethods* batch) override {
    const auto self = shared_from_this();  // Hijack may end the caller
    MakePlan(batch);
    // With a reply object still to come (in the reactor's second batch) it is
    // that one which starts the attempt, perhaps before this returns.
    const bool can_start = !reply_comes_later_;
    gate_.Hijack(batch);
    if (can_start) StartFirstAttempt();
  }

  void OnBatch(InterceptorBatchMethods* batch) override {
    const auto self = shared_from_this();  // Proceed may end the caller
    const BatchWants wants(batch);
    if (!wants.anything()) {
      gate_.Pass(batch);
      return;
    }
    if (wants.message && reply_comes_later_) {
      plan_.reply = core_->ReplyAt(batch->GetRecvMessage());
      reply_comes_later_ = false;
      Hold(batch);
      StartFirstAttempt();
      return;
    }
    Hold(batch);
  }

  // A completion-queue call that was asked for its response headers alone, and
  // is not waited for.
  void OnDropped() override {
    const auto self = shared_from_this();
    {
      MutexLock lock(mu_);
      dropped_ = true;
      // What has led to the answer may still be on its way back, perhaps below
      // us on this very stack, and uses nothing.
      while (users_ > 0 && !answer_.has_value()) unused_.Wait(mu_);
      if (answer_.has_value()) return;
    }
    Abandon();
  }

  void OnHeaders(UnaryAttempt& attempt) override {
    const auto self = shared_from_this();
    {
      MutexLock lock(mu_);
      committed_ = &attempt;
    }
    DeliverWhatIsThere();
  }

 private:
  bool BeginUse() override {
    MutexLock lock(mu_);
    if (dropped_) return false;
    ++users_;
    return true;
  }

  void EndUse() override {
    MutexLock lock(mu_);
    if (--users_ == 0) unused_.NotifyAll();
  }

  void MakePlan(InterceptorBatchMethods* batch) {
    // A callback-style call shows its message, a completion-queue call has
    // serialised it already.
    const bool callback_style = SentObject(batch) != nullptr;
    plan_.TakeRequest(batch, *core_, /*caller_waits=*/false);
    TakeTarget(batch);
    if (!headers_commit_) {
      plan_.reply = core_->ReplyAt(batch->GetRecvMessage());
    } else if (callback_style) {
      reply_comes_later_ = true;
    } else {
      // The application asked for the response headers alone. Its reply object
      // is not known before it asks for the rest.
      plan_.reply =
          scratch_.Use(core_->method().types(), core_->channel().codec());
    }
  }

  void Hold(InterceptorBatchMethods* batch) {
    {
      MutexLock lock(mu_);
      held_.push_back(batch);
    }
    DeliverWhatIsThere();
  }

  bool committed() override { return committed_attempt() != nullptr; }

  void OnAnswer(Answer answer) override {
    {
      MutexLock lock(mu_);
      answer_ = std::move(answer);
      --users_;
      unused_.NotifyAll();
    }
    DeliverWhatIsThere();
  }

  // Completes each batch for which everything is there. May be entered by
  // several threads, and from Proceed; each batch is taken by one of them.
  void DeliverWhatIsThere() {
    while (InterceptorBatchMethods* const batch = TakeDeliverable()) {
      const BatchWants wants(batch);
      if (!wants.message && !wants.status && committed_attempt() != nullptr) {
        DeliverInitialMetadata(batch, *committed_attempt());
      } else {
        FillReply(batch, wants);
        Deliver(batch, *answer_);
      }
      batch->Proceed();
    }
  }

  InterceptorBatchMethods* TakeDeliverable() {
    MutexLock lock(mu_);
    for (auto it = held_.begin(); it != held_.end(); ++it) {
      const BatchWants wants(*it);
      const bool headers_only = !wants.message && !wants.status;
      if (!answer_.has_value() && !(headers_only && committed_ != nullptr)) {
        continue;
      }
      InterceptorBatchMethods* const batch = *it;
      held_.erase(it);
      return batch;
    }
    return nullptr;
  }

  const Attempt* committed_attempt() {
    MutexLock lock(mu_);
    return committed_;
  }

  // Moves the message from the scratch object to the application's.
  void FillReply(InterceptorBatchMethods* batch, const BatchWants& wants) {
    if (!wants.message || !scratch_.used() || !answer_->has_message) return;
    const Reply to = core_->ReplyAt(batch->GetRecvMessage());
    if (scratch_.MoveTo(to)) return;
    answer_->has_message = false;
    answer_->status = grpc::Status(
        grpc::StatusCode::INTERNAL,
        "retry_guard: the reply does not fit the reply object; see "
        "InterceptorOptions::codec");
  }

  const bool headers_commit_;
  HijackGate gate_;

  // Set before the first attempt starts.
  bool reply_comes_later_ = false;
  ScratchReply scratch_;

  Mutex mu_;
  CondVar unused_;
  int users_ ABSL_GUARDED_BY(mu_) = 0;
  bool dropped_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<InterceptorBatchMethods*> held_ ABSL_GUARDED_BY(mu_);
  const Attempt* committed_ ABSL_GUARDED_BY(mu_) = nullptr;
  // Guarded by mu_ until it is set; constant afterwards.
  std::optional<Answer> answer_;
};

}  // namespace

std::shared_ptr<Road> MakeRelayRoad(std::shared_ptr<CallCore> core,
                                    bool status_in_first_batch) {
  return std::make_shared<RelayRoad>(std::move(core), status_in_first_batch);
}

}  // namespace retry_guard::internal
