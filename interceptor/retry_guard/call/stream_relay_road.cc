#include "retry_guard/call/stream_relay_road.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "retry_guard/call/delivery.h"
#include "retry_guard/call/hijack_gate.h"
#include "retry_guard/call/parent_watch.h"
#include "retry_guard/call/stream_attempt.h"
#include "retry_guard/call/stream_replies.h"
#include "retry_guard/policy/mutex.h"

namespace retry_guard::internal {
namespace {

using grpc::experimental::InterceptorBatchMethods;

// For a stream of any kind and style, as gRFC A6 has it: what the application
// writes is kept until the call commits, and every attempt sends it from the
// beginning. A write of the application's is done when an attempt has written
// it, and a message is read only when the application asks for one: so the flow
// control of the attempt is that of the application.
//
// Everything that happens (a batch of the application's, an operation of the
// attempt's that is done, a timer) changes what is known, under the lock, and
// then Advance does, without it, whatever that allows, one action at a time.
class StreamRelayRoad final
    : public Road,
      public StreamListener,
      public std::enable_shared_from_this<StreamRelayRoad> {
 public:
  explicit StreamRelayRoad(std::shared_ptr<CallCore> core)
      : core_(std::move(core)),
        interruption_(std::make_shared<Interruption>()),
        replies_(*core_) {}

  explicit StreamRelayRoad(StreamHandover handover)
      : core_(std::move(handover.core)),
        interruption_(std::move(handover.interruption)),
        replies_(*core_),
        below_(std::move(handover.below)),
        target_(handover.target),
        sends_(std::move(handover.sends)) {
    gate_.Open();
    sends_.Restart();
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
    StreamWrite write = WriteOf(batch);
    {
      MutexLock lock(mu_);
      ++users_;
      if (!write.empty()) AddWrite(std::move(write));
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
      sending_.push_back({batch, AddWrite(std::move(write))});
    } else if (const BatchWants wants(batch); wants.anything()) {
      MutexLock lock(mu_);
      receiving_.push_back({batch, wants});
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
      dropped_ = true;
      while (users_ > 0) unused_.Wait(mu_);
      if (answer_.has_value()) return;
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
      headers_ = trailers_only ? Headers::kNone : Headers::kThere;
    }
    Advance();
  }

  void OnWritten(bool ok) override {
    const auto self = shared_from_this();
    {
      MutexLock lock(mu_);
      if (!ok) {
        can_write_ = false;
      } else if (under_way_ == UnderWay::kWrite) {
        sends_.MarkWritten();
      }
      under_way_ = UnderWay::kNothing;
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
      reading_ = false;
      message_ = got_message ? Message::kThere : Message::kNone;
      undecodable_ = !ok;
    }
    Advance();
  }

  void OnStatus() override {
    const auto self = shared_from_this();
    {
      MutexLock lock(mu_);
      has_status_ = true;
    }
    Advance();
  }

 private:
  // Of the attempt. Operations are started while it runs; what is decided, by
  // one thread, while it is over.
  enum class Phase { kNoAttempt, kStarting, kRunning, kOver };
  enum class Headers { kAwaited, kNone, kThere };
  enum class Message { kUnknown, kNone, kThere };  // to be delivered next
  enum class UnderWay { kNothing, kHeaders, kWrite };

  struct Sending {
    InterceptorBatchMethods* batch;
    int64_t number;  // of its write
  };
  struct Receiving {
    InterceptorBatchMethods* batch;
    BatchWants wants;
  };

  // ---- What there is to do next; decided under the lock, done without.

  struct Action {
    enum class Kind { kNothing, kWrite, kRead, kSent, kReceived, kOver, kDrop };
    Kind kind = Kind::kNothing;
    std::shared_ptr<StreamAttempt> attempt;
    StreamWrite write;                         // kWrite
    InterceptorBatchMethods* batch = nullptr;  // kRead, kSent, kReceived
    bool ok = false;                           // kSent, kReceived: a message
  };

  void Advance() {
    for (;;) {
      Action action;
      {
        MutexLock lock(mu_);
        action = NextAction();
      }
      switch (action.kind) {
        case Action::Kind::kNothing:
          return;
        case Action::Kind::kWrite:
          action.attempt->Write(action.write);
          EndUse();
          break;
        case Action::Kind::kRead:
          StartRead(*action.attempt, action.batch);
          EndUse();
          break;
        case Action::Kind::kSent:
          if (!action.ok) FailWrite(action.batch);
          gate_.Pass(action.batch);
          break;
        case Action::Kind::kReceived:
          FinishReceive(action.batch, action.attempt.get(), action.ok);
          break;
        case Action::Kind::kOver:
          AttemptOver(std::move(action.attempt));
          EndUse();
          break;
        case Action::Kind::kDrop:
          action.attempt->Forget();
          break;
      }
    }
  }

  Action NextAction() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    Action action;
    if (TakeSent(action) || TakeReceived(action)) return action;
    if (phase_ != Phase::kRunning) return action;
    action.attempt = attempt_;
    if (AttemptIsOver()) {
      action.kind = dropped_ ? Action::Kind::kDrop : Action::Kind::kOver;
      phase_ = Phase::kOver;
    } else if (!dropped_ && can_write_ && under_way_ == UnderWay::kNothing) {
      if (std::optional<StreamWrite> write = sends_.Next()) {
        under_way_ = UnderWay::kWrite;
        action.kind = Action::Kind::kWrite;
        action.write = *std::move(write);
      }
    }
    if (action.kind == Action::Kind::kNothing && !dropped_ &&
        TakeRead(action)) {
      reading_ = true;
      action.kind = Action::Kind::kRead;
    }
    if (action.kind == Action::Kind::kWrite ||
        action.kind == Action::Kind::kRead ||
        action.kind == Action::Kind::kOver) {
      ++users_;
    }
    return action;
  }

  bool AttemptIsOver() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const bool idle = has_status_ && headers_ != Headers::kAwaited &&
                      !reading_ && under_way_ == UnderWay::kNothing;
    // A server's status comes after its messages, but an interceptor after ours
    // may answer with both at any time: the application reads to the end.
    return idle && (dropped_ || !committed_ || message_ == Message::kNone ||
                    WantsStatus());
  }

  // The one reply of a client stream is wanted with the status, and read first.
  bool WantsStatus() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const bool unread = message_ == Message::kUnknown;
    return std::any_of(receiving_.begin(), receiving_.end(),
                       [unread](const Receiving& receiving) {
                         const BatchWants& wants = receiving.wants;
                         return wants.status && !(wants.message && unread);
                       });
  }

  // A batch of the application's whose write is done, or will never be.
  bool TakeSent(Action& action) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (sending_.empty()) return false;
    const bool written = sending_.front().number < sends_.written();
    const bool failed = answer_.has_value() || (committed_ && !can_write_);
    if (!written && !failed) return false;
    action.kind = Action::Kind::kSent;
    action.batch = sending_.front().batch;
    action.ok = written;
    sending_.pop_front();
    return true;
  }

  // A batch of the application's for which everything is there.
  bool TakeReceived(Action& action) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const bool over = answer_.has_value();
    // What a committed attempt lacks, the call lacks.
    const bool headers = headers_ == Headers::kThere ||
                         (headers_ == Headers::kNone && committed_);
    const bool no_message = message_ == Message::kNone && committed_;
    for (auto it = receiving_.begin(); it != receiving_.end(); ++it) {
      const BatchWants& wants = it->wants;
      const bool ready =
          over ||
          (!wants.status && (!wants.initial_metadata || headers) &&
           (!wants.message || message_ == Message::kThere || no_message));
      if (!ready) continue;
      action.kind = Action::Kind::kReceived;
      action.batch = it->batch;
      if (!over) action.attempt = attempt_;
      if (wants.message && message_ == Message::kThere) {
        action.ok = true;
        message_ = Message::kUnknown;
      }
      receiving_.erase(it);
      return true;
    }
    return false;
  }

  // One that waits for a message that nobody reads yet.
  bool TakeRead(Action& action) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (reading_ || message_ != Message::kUnknown) return false;
    for (const Receiving& receiving : receiving_) {
      if (!receiving.wants.message) continue;
      action.batch = receiving.batch;
      return true;
    }
    return false;
  }

  // ---- The application's side.

  int64_t AddWrite(StreamWrite write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const int64_t number = sends_.Add(std::move(write));
    CommitIfTooMuch();
    return number;
  }

  // Only to an attempt: what is kept between two of them is sent by the next,
  // and one that is over may be repeated.
  void CommitIfTooMuch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (phase_ != Phase::kStarting && phase_ != Phase::kRunning) return;
    if (sends_.bytes() > core_->buffer_limit()) Commit();
  }

  void StartRead(StreamAttempt& attempt, InterceptorBatchMethods* batch) {
    if (const std::optional<Reply> reply = replies_.At(batch)) {
      attempt.Read(*reply);
      return;
    }
    attempt.Cancel();
    OnRead(/*ok=*/true, /*got_message=*/false);
  }

  // `attempt`: the one that runs; null if the call has its answer.
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

  // ---- The attempts' side. One thread at a time, between BeginUse and EndUse:
  // only there may the core, the caller's context and the channel be used.

  // False: the application has dropped the stream, and with it all three.
  bool BeginUse() {
    MutexLock lock(mu_);
    if (dropped_) return false;
    ++users_;
    return true;
  }
  void EndUse() {
    MutexLock lock(mu_);
    if (--users_ == 0 && dropped_) unused_.NotifyAll();
  }

  void Commit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    committed_ = true;
    sends_.Commit();
  }

  // Something of the attempt is there that the application may see. Headers and
  // a message may be told at the same time.
  void ServerAnswers() {
    if (!BeginUse()) return;
    bool first = false;
    {
      MutexLock lock(mu_);
      Commit();
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
    std::optional<StreamWrite> first;
    {
      MutexLock lock(mu_);
      attempt_ = attempt;
      phase_ = Phase::kStarting;
      headers_ = Headers::kAwaited;
      message_ = Message::kUnknown;
      undecodable_ = false;
      has_status_ = false;
      can_write_ = true;
      timed_out_ = false;
      CommitIfTooMuch();
      first = sends_.Next();
      under_way_ = first.has_value() ? UnderWay::kWrite : UnderWay::kHeaders;
    }
    attempt->Start(target_, shared_from_this(),
                   first.has_value() ? &*first : nullptr);
    StartAttemptTimer(attempt);
    // The application may have asked for things meanwhile, and the attempt may
    // even have ended: who calls this goes on with Advance.
    MutexLock lock(mu_);
    phase_ = Phase::kRunning;
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
      if (!committed_) {
        attempt_timer_ = std::move(timer);
        return;
      }
    }
    timer->Cancel();
  }

  void TimeOut(const std::shared_ptr<StreamAttempt>& attempt) {
    {
      MutexLock lock(mu_);
      if (attempt != attempt_ || phase_ == Phase::kOver || committed_) return;
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
      ended.committed = committed_;
      ended.timed_out = timed_out_;
      status = replies_.StatusOf(std::move(status), undecodable_);
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
      phase_ = Phase::kNoAttempt;
      sends_.Restart();
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
  }

  const std::shared_ptr<CallCore> core_;
  const std::shared_ptr<Interruption> interruption_;
  StreamReplies replies_;
  HijackGate gate_;

  // Set before the first attempt starts.
  std::unique_ptr<grpc::ChannelInterface> below_;
  AttemptTarget target_;

  // Of whoever has the call's next step.
  std::shared_ptr<ParentWatch> watch_;

  Mutex mu_;
  // Threads that use what the application may drop.
  int users_ ABSL_GUARDED_BY(mu_) = 0;
  CondVar unused_;
  bool dropped_ ABSL_GUARDED_BY(mu_) = false;

  // The application's batches that wait.
  std::deque<Sending> sending_ ABSL_GUARDED_BY(mu_);
  std::vector<Receiving> receiving_ ABSL_GUARDED_BY(mu_);
  SendBuffer sends_ ABSL_GUARDED_BY(mu_);
  bool committed_ ABSL_GUARDED_BY(mu_) = false;
  bool answers_ ABSL_GUARDED_BY(mu_) = false;  // the core knows

  // The attempt that runs, and what is known of it.
  std::shared_ptr<StreamAttempt> attempt_ ABSL_GUARDED_BY(mu_);
  Phase phase_ ABSL_GUARDED_BY(mu_) = Phase::kNoAttempt;
  std::shared_ptr<Clock::Timer> attempt_timer_ ABSL_GUARDED_BY(mu_);
  Headers headers_ ABSL_GUARDED_BY(mu_) = Headers::kAwaited;
  Message message_ ABSL_GUARDED_BY(mu_) = Message::kUnknown;
  UnderWay under_way_ ABSL_GUARDED_BY(mu_) = UnderWay::kNothing;
  bool reading_ ABSL_GUARDED_BY(mu_) = false;
  bool undecodable_ ABSL_GUARDED_BY(mu_) = false;
  bool has_status_ ABSL_GUARDED_BY(mu_) = false;
  bool can_write_ ABSL_GUARDED_BY(mu_) = false;
  bool timed_out_ ABSL_GUARDED_BY(mu_) = false;

  // Guarded by mu_ until it is set; constant afterwards.
  std::optional<Answer> answer_;
};

}  // namespace

std::shared_ptr<Road> MakeStreamRelayRoad(std::shared_ptr<CallCore> core) {
  return std::make_shared<StreamRelayRoad>(std::move(core));
}

std::shared_ptr<Road> ContinueOnStreamRelayRoad(StreamHandover handover) {
  const absl::Time retry_at = handover.retry_at;
  auto road = std::make_shared<StreamRelayRoad>(std::move(handover));
  road->Continue(retry_at);
  return road;
}

}  // namespace retry_guard::internal
