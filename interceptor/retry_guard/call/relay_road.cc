#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "retry_guard/call/delivery.h"
#include "retry_guard/call/hijack_gate.h"
#include "retry_guard/call/interruption.h"
#include "retry_guard/call/parent_watch.h"
#include "retry_guard/call/road.h"
#include "retry_guard/call/unary_attempt.h"

namespace retry_guard::internal {
namespace {

using grpc::experimental::InterceptorBatchMethods;

// For a unary call of any asynchronous style. Its batches are held until there
// is something to deliver; attempts and waits follow each other on threads of
// gRPC's, one at a time, and only the rendezvous of batches and answer needs a
// lock. A call in backoff is this object and a timer; no thread.
class RelayRoad final : public Road,
                        public UnaryListener,
                        public std::enable_shared_from_this<RelayRoad> {
 public:
  // If the status is not asked for in the first batch, the application may look
  // at response headers before the end: then they commit the call (gRFC A6).
  RelayRoad(std::shared_ptr<CallCore> core, bool status_in_first_batch)
      : core_(std::move(core)), headers_commit_(!status_in_first_batch) {}

  void OnStart(InterceptorBatchMethods* batch) override {
    const auto self = shared_from_this();  // Hijack may end the caller
    TakeRequest(batch);
    // With a reply object still to come (in the reactor's second batch) it is
    // that one which starts the attempt, perhaps before this returns.
    const bool can_start = !reply_comes_later_;
    gate_.Hijack(batch);
    if (can_start) StartAttempt();
  }

  void OnBatch(InterceptorBatchMethods* batch) override {
    const auto self = shared_from_this();  // Proceed may end the caller
    const BatchWants wants(batch);
    if (!wants.anything()) {
      gate_.Pass(batch);
      return;
    }
    if (wants.message && reply_comes_later_) {
      plan_.reply = ReplyAt(batch->GetRecvMessage());
      reply_comes_later_ = false;
      Hold(batch);
      StartAttempt();
      return;
    }
    Hold(batch);
  }

  void OnCancel() override { interruption_->Cancel(); }

  void OnHeaders(UnaryAttempt& attempt) override {
    const auto self = shared_from_this();
    {
      MutexLock lock(mu_);
      committed_ = &attempt;
    }
    DeliverWhatIsThere();
  }

  void OnDone(UnaryAttempt& attempt) override {
    const auto self = shared_from_this();
    bool committed = false;
    {
      MutexLock lock(mu_);
      committed = committed_ != nullptr;
    }
    CallCore::Ended ended{attempt.status(), attempt.context()};
    ended.committed = committed;
    const CallCore::Next next = core_->AfterAttempt(ended);
    if (!next.retry) {
      SetAnswer(Answer::FromAttempt(std::move(attempt_),
                                    core_->FinalStatus(attempt.status()),
                                    attempt.got_message()));
      return;
    }
    if (attempt.touched_reply()) plan_.reply.Clear();
    attempt_.reset();
    Wait(next.at);
  }

 private:
  void TakeRequest(InterceptorBatchMethods* batch) {
    below_ = batch->GetInterceptedChannel();
    // A callback-style call shows its message, a completion-queue call has
    // serialised it already. The application may change or drop its own as
    // soon as the call has started, so each attempt sends these bytes.
    const bool callback_style = batch->GetSendMessage() != nullptr;
    request_ = *batch->GetSerializedSendMessage();
    plan_.target = core_->TargetBelow(below_.get());
    plan_.request_bytes = &request_;
    if (!headers_commit_) {
      plan_.reply = ReplyAt(batch->GetRecvMessage());
    } else if (callback_style) {
      reply_comes_later_ = true;
    } else {
      // The application asked for the response headers alone. Its reply object
      // is not known before it asks for the rest.
      plan_.reply = scratch_.Use(core_->method().types());
    }
  }

  Reply ReplyAt(void* object) {
    return {
        core_->method().types().KindOfReply(core_->channel().codec(), object),
        object};
  }

  // The next attempt has its permission.
  void StartAttempt() {
    attempt_ = UnaryAttempt::Create(plan_.reply.kind);
    core_->FillContext(&attempt_->context());
    interruption_->BeginAttempt(attempt_);
    // A copy: the attempt may end, and be replaced, before Start returns.
    const std::shared_ptr<UnaryAttempt> attempt = attempt_;
    attempt->Start(plan_, attempt, shared_from_this(), headers_commit_);
  }

  void Wait(absl::Time until) {
    const uint64_t wait = interruption_->BeginWait();
    watch_ = ParentWatch::Start(core_, interruption_, *plan_.target.method);
    const auto timer = core_->channel().clock().StartTimer(
        until,
        [self = shared_from_this()](bool /*fired*/) { self->WaitOver(); });
    interruption_->SetTimer(wait, timer);
  }

  void WaitOver() {
    if (watch_ != nullptr) std::exchange(watch_, nullptr)->Stop();
    if (std::optional<KeptAnswer> refusal = core_->BeforeAttempt()) {
      SetAnswer(Answer::FromKept(*std::move(refusal)));
      return;
    }
    StartAttempt();
  }

  void Hold(InterceptorBatchMethods* batch) {
    {
      MutexLock lock(mu_);
      held_.push_back(batch);
    }
    DeliverWhatIsThere();
  }

  void SetAnswer(Answer answer) {
    {
      MutexLock lock(mu_);
      answer_ = std::move(answer);
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
    const Reply to = ReplyAt(batch->GetRecvMessage());
    if (scratch_.MoveTo(to)) return;
    answer_->has_message = false;
    answer_->status = grpc::Status(
        grpc::StatusCode::INTERNAL,
        "retry_guard: the reply does not fit the reply object; see "
        "InterceptorOptions::codec");
  }

  const std::shared_ptr<CallCore> core_;
  const bool headers_commit_;
  HijackGate gate_;
  const std::shared_ptr<Interruption> interruption_ =
      std::make_shared<Interruption>();

  // Set before the first attempt starts.
  std::unique_ptr<grpc::ChannelInterface> below_;
  grpc::ByteBuffer request_;
  UnaryPlan plan_;
  bool reply_comes_later_ = false;
  ScratchReply scratch_;

  // Of whoever has the call's next step: an attempt's end or a wait's.
  std::shared_ptr<UnaryAttempt> attempt_;
  std::shared_ptr<ParentWatch> watch_;

  Mutex mu_;
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
