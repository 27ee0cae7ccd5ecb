#include "retry_guard/call/stream_relay_road.h"

#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "retry_guard/call/delivery.h"
#include "retry_guard/call/hijack_gate.h"
#include "retry_guard/call/parent_watch.h"
#include "retry_guard/call/stream_attempt.h"
#include "retry_guard/call/stream_progress.h"
#include "retry_guard/call/stream_replies.h"
#include "retry_guard/policy/mutex.h"

namespace retry_guard::internal {
namespace {

using grpc::experimental::InterceptorBatchMethods;

// For a stream of any kind and style, as gRFC A6 has it: what the application
// writes is kept until the call commits, and every attempt sends it from the
// beginning.
//
// Everything that happens (a batch of the application's, an operation of the
// attempt's that is done, a timer) is told to the progress, under the lock;
// then Advance does, without it, whatever that allows, one step at a time.
class StreamRelayRoad final
    : public Road,
      public StreamListener,
      public std::enable_shared_from_this<StreamRelayRoad> {
 public:
  StreamRelayRoad(std::shared_ptr<CallCore> core, StreamWrite first)
      : core_(std::move(core)),
        interruption_(std::make_shared<Interruption>()),
        replies_(*core_) {
    if (!first.empty()) progress_.StartWith(std::move(first));
  }

  explicit StreamRelayRoad(StreamHandover handover)
      : core_(std::move(handover.core)),
        interruption_(std::move(handover.interruption)),
        replies_(*core_),
        below_(std::move(handover.below)),
        target_(handover.target),
        progress_(std::move(handover.sends)) {
    gate_.Open();
  }

  void Continue(absl::Time retry_at) {
    if (!BeginUse()) return;
    Wait(retry_at);
    EndUse();
  }

  void OnStart(InterceptorBatchMethods* batch) override {
    const auto self = shared_from_this();
    below_ = batch->GetInterceptedChannel();
    target_ = core_->TargetBelow(below_.get());
    {
      MutexLock lock(mu_);
      ++users_;
    }
    gate_.Hijack(batch);
    StartAttempt();
    EndUse();
    Advance();
  }

  void OnBatch(InterceptorBatchMethods* batch) override {
    const auto self = shared_from_this();  // Proceed may end the caller
    if (StreamWrite write = WriteOf(batch); !write.empty()) {
      MutexLock lock(mu_);
      progress_.Write(batch, std::move(write));
    } else if (const BatchWants wants(batch); wants.anything()) {
      MutexLock lock(mu_);
      progress_.Receive(batch, wants);
    } else {
      gate_.Pass(batch);
      return;
    }
    Advance();
  }

  void OnCancel() override { interruption_->Cancel(); }

  void OnDropped() override {
    const auto self = shared_from_this();
    std::shared_ptr<StreamAttempt> attempt;
    {
      MutexLock lock(mu_);
      progress_.Drop();
      while (users_ > 0) unused_.Wait(mu_);
      if (progress_.answered()) return;
      attempt = attempt_;
    }
    core_->Abandon();
    StopAttemptTimer();
    if (watch_ != nullptr) std::exchange(watch_, nullptr)->Stop();
    interruption_->Cancel();
    if (attempt != nullptr) attempt->ReleaseChannel();
    Advance();
  }

  void OnHeaders(bool trailers_only) override {
    const auto self = shared_from_this();
    if (!trailers_only) ServerAnswers();
    {
      MutexLock lock(mu_);
      progress_.HeadersCame(trailers_only);
    }
    Advance();
  }

  void OnWritten(bool ok) override {
    const auto self = shared_from_this();
    {
      MutexLock lock(mu_);
      progress_.WriteDone(ok);
    }
    Advance();
  }

  void OnRead(bool ok, bool got_message) override {
    const auto self = shared_from_this();
    // Headers must have come before it, but that may be told later, or, where
    // the attempt is being cancelled, as if there had been none.
    if (got_message) ServerAnswers();
    {
      MutexLock lock(mu_);
      progress_.ReadDone(ok, got_message);
    }
    Advance();
  }

  void OnStatus() override {
    const auto self = shared_from_this();
    {
      MutexLock lock(mu_);
      progress_.StatusCame();
    }
    Advance();
  }

 private:
  using Step = StreamProgress::Step;
  using Kind = StreamProgress::Kind;

  void Advance() {
    for (;;) {
      Step step;
      std::shared_ptr<StreamAttempt> attempt;
      {
        MutexLock lock(mu_);
        step = progress_.Next();
        if (step.kind == Kind::kNothing) return;
        // A write that goes on may end the call, and the attempt is not to be
        // let go of here, on a thread of the application's.
        if (step.kind != Kind::kSent) attempt = attempt_;
        if (UsesCall(step.kind)) ++users_;
      }
      Do(step, std::move(attempt));
      if (UsesCall(step.kind)) EndUse();
    }
  }

  static bool UsesCall(Kind kind) {
    return kind == Kind::kWrite || kind == Kind::kRead || kind == Kind::kOver;
  }

  // `attempt`: the one that runs; null for kSent, or if the call has its
  // answer.
  void Do(const Step& step, std::shared_ptr<StreamAttempt> attempt) {
    switch (step.kind) {
      case Kind::kNothing:
        break;
      case Kind::kWrite:
        attempt->Write(*step.write);
        break;
      case Kind::kRead:
        StartRead(*attempt, step.batch);
        break;
      case Kind::kSent:
        if (!step.ok) FailWrite(step.batch);
        gate_.Pass(step.batch);
        break;
      case Kind::kReceived:
        FinishReceive(step.batch, attempt.get(), step.ok);
        break;
      case Kind::kOver:
        AttemptOver(std::move(attempt));
        break;
      case Kind::kDropped:
        attempt->Forget();
        break;
    }
  }

  // ---- The application's side.

  void StartRead(StreamAttempt& attempt, InterceptorBatchMethods* batch) {
    if (const std::optional<Reply> reply = replies_.At(batch)) {
      attempt.Read(*reply);
      return;
    }
    attempt.Cancel();
    OnRead(/*ok=*/true, /*got_message=*/false);
  }

  void FinishReceive(InterceptorBatchMethods* batch,
                     const StreamAttempt* attempt, bool has_message) {
    if (attempt == nullptr) {
      Deliver(batch, *answer_, has_message);
    } else {
      const BatchWants wants(batch);
      if (wants.initial_metadata) DeliverInitialMetadata(batch, *attempt);
      if (wants.message && !has_message) batch->FailHijackedRecvMessage();
    }
    batch->Proceed();
  }

  // ---- The attempts' side. The core, the caller's context and the channel may
  // be used only between BeginUse (which Advance makes for what needs it) and
  // EndUse. Uses may overlap: what decides is for one thread at a time all the
  // same, since it comes when the attempt is over, or before it starts.

  // False: the application has dropped the stream, and with it all three.
  bool BeginUse() {
    MutexLock lock(mu_);
    if (progress_.dropped()) return false;
    ++users_;
    return true;
  }
  void EndUse() {
    MutexLock lock(mu_);
    if (--users_ == 0 && progress_.dropped()) unused_.NotifyAll();
  }

  // Something of the attempt is there that the application may see. Headers and
  // a message may be told at the same time.
  void ServerAnswers() {
    if (!BeginUse()) return;
    bool first = false;
    {
      MutexLock lock(mu_);
      progress_.Commit();
      first = !std::exchange(answers_, true);
    }
    if (first) {
      StopAttemptTimer();
      core_->ServerAnswers();
    }
    EndUse();
  }

  // The next attempt has its permission.
  void StartAttempt() {
    const auto attempt = std::make_shared<StreamAttempt>();
    core_->FillContext(&attempt->context());
    interruption_->BeginAttempt(attempt);
    const StreamWrite* first = nullptr;
    {
      MutexLock lock(mu_);
      attempt_ = attempt;
      timed_out_ = false;
      first = progress_.AttemptStarts(core_->buffer_limit());
    }
    attempt->Start(target_, shared_from_this(), first);
    StartAttemptTimer(attempt);
    // The application may have asked for things meanwhile, and the attempt may
    // even have ended: who calls this goes on with Advance.
    MutexLock lock(mu_);
    progress_.AttemptRuns();
  }

  void StartAttemptTimer(const std::shared_ptr<StreamAttempt>& attempt) {
    const absl::Time when = core_->attempt_timeout_at();
    if (when == absl::InfiniteFuture()) return;
    auto timer = core_->channel().clock().StartTimer(
        when, [self = shared_from_this(), attempt](bool fired) {
          if (fired) self->TimeOut(attempt);
        });
    {
      MutexLock lock(mu_);
      if (!progress_.committed()) {
        attempt_timer_ = std::move(timer);
        return;
      }
    }
    timer->Cancel();
  }

  void TimeOut(const std::shared_ptr<StreamAttempt>& attempt) {
    {
      MutexLock lock(mu_);
      if (attempt != attempt_ || progress_.attempt_is_over() ||
          progress_.committed()) {
        return;
      }
      timed_out_ = true;
    }
    attempt->TimeOut();
  }

  void StopAttemptTimer() {
    std::shared_ptr<Clock::Timer> timer;
    {
      MutexLock lock(mu_);
      timer = std::exchange(attempt_timer_, nullptr);
    }
    if (timer != nullptr) timer->Cancel();
  }

  void AttemptOver(std::shared_ptr<StreamAttempt> attempt) {
    StopAttemptTimer();
    grpc::Status status = attempt->status();
    CallCore::Ended ended{status, attempt->context()};
    {
      MutexLock lock(mu_);
      ended.committed = progress_.committed();
      ended.timed_out = timed_out_;
      status = replies_.StatusOf(std::move(status), progress_.undecodable());
    }
    const CallCore::Next next = core_->AfterAttempt(ended);
    attempt->Forget();
    attempt->ReleaseChannel();
    if (!next.retry) {
      SetAnswer(Answer::FromAttempt(
          std::move(attempt), replies_.FinalStatus(core_->FinalStatus(status)),
          /*got_message=*/false));
      return;
    }
    attempt.reset();
    {
      MutexLock lock(mu_);
      attempt.swap(attempt_);
      progress_.Retry();
    }
    attempt.reset();
    Wait(next.at);
  }

  void Wait(absl::Time until) {
    const uint64_t wait = interruption_->BeginWait();
    watch_ = ParentWatch::Start(core_, interruption_, *target_.method);
    const auto timer = core_->channel().clock().StartTimer(
        until,
        [self = shared_from_this()](bool /*fired*/) { self->WaitOver(); });
    interruption_->SetTimer(wait, timer);
  }

  void WaitOver() {
    if (!BeginUse()) return;
    if (watch_ != nullptr) std::exchange(watch_, nullptr)->Stop();
    if (std::optional<KeptAnswer> refusal = core_->BeforeAttempt()) {
      SetAnswer(Answer::FromKept(*std::move(refusal)));
    } else {
      StartAttempt();
    }
    EndUse();
    Advance();
  }

  void SetAnswer(Answer answer) {
    std::shared_ptr<StreamAttempt> attempt;  // dies after the lock is released
    MutexLock lock(mu_);
    attempt.swap(attempt_);
    answer_ = std::move(answer);
    progress_.SetAnswered();
  }

  const std::shared_ptr<CallCore> core_;
  const std::shared_ptr<Interruption> interruption_;
  StreamReplies replies_;
  HijackGate gate_;

  // Set before the first attempt starts.
  std::unique_ptr<grpc::ChannelInterface> below_;
  AttemptTarget target_;

  // Of the wait between two attempts: set as it begins, used as it ends.
  std::shared_ptr<ParentWatch> watch_;

  Mutex mu_;
  // Threads that use what the application may drop.
  int users_ ABSL_GUARDED_BY(mu_) = 0;
  CondVar unused_;
  StreamProgress progress_ ABSL_GUARDED_BY(mu_);
  bool answers_ ABSL_GUARDED_BY(mu_) = false;  // the core knows

  // The attempt that runs.
  std::shared_ptr<StreamAttempt> attempt_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Clock::Timer> attempt_timer_ ABSL_GUARDED_BY(mu_);
  bool timed_out_ ABSL_GUARDED_BY(mu_) = false;

  // Guarded by mu_ until it is set; constant afterwards.
  std::optional<Answer> answer_;
};

}  // namespace

std::shared_ptr<Road> MakeStreamRelayRoad(std::shared_ptr<CallCore> core,
                                          StreamWrite first) {
  return std::make_shared<StreamRelayRoad>(std::move(core), std::move(first));
}

std::shared_ptr<Road> ContinueOnStreamRelayRoad(StreamHandover handover) {
  const absl::Time retry_at = handover.retry_at;
  auto road = std::make_shared<StreamRelayRoad>(std::move(handover));
  road->Continue(retry_at);
  return road;
}

}  // namespace retry_guard::internal
