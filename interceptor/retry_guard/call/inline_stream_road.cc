#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "retry_guard/call/delivery.h"
#include "retry_guard/call/interruption.h"
#include "retry_guard/call/road.h"
#include "retry_guard/call/send_buffer.h"
#include "retry_guard/call/stream_attempt.h"
#include "retry_guard/call/stream_relay_road.h"
#include "retry_guard/call/stream_replies.h"
#include "retry_guard/call/sync_caller.h"
#include "retry_guard/policy/mutex.h"

namespace retry_guard::internal {
namespace {

using grpc::experimental::InterceptorBatchMethods;

// For a stream of the blocking API: each operation of the application is one of
// the first attempt, made on the application's own thread, so that a stream
// that goes well costs no hop to another one. If there is to be a second
// attempt, the call goes over to the relay, and what the application does from
// then on waits for that.
//
// The application may write on one thread and read on another.
class InlineStreamRoad final
    : public Road,
      public std::enable_shared_from_this<InlineStreamRoad> {
 public:
  explicit InlineStreamRoad(std::shared_ptr<CallCore> core)
      : core_(std::move(core)), replies_(*core_) {}

  void OnStart(InterceptorBatchMethods* batch) override {
    callers_thread_ = std::this_thread::get_id();
    below_ = batch->GetInterceptedChannel();
    target_ = core_->TargetBelow(below_.get());
    core_->FillContext(&attempt_->context());
    interruption_->BeginAttempt(attempt_);
    const StreamWrite write = WriteOf(batch);
    const bool ok = attempt_->Start(target_, write.empty() ? nullptr : &write);
    if (!write.empty()) {
      MutexLock lock(mu_);
      Keep(write);
    }
    batch->Hijack();  // the batch comes again
    if (!ok) Conclude(/*finishes=*/false);
  }

  void OnBatch(InterceptorBatchMethods* batch) override {
    StreamWrite write = WriteOf(batch);
    if (write.empty() && !BatchWants(batch).anything()) {
      batch->Proceed();
    } else if (IsOnCallersThread(batch)) {
      Serve(batch, std::move(write));
    } else {
      // An interceptor before ours has taken it to a thread that may not be for
      // us to block.
      std::thread([self = shared_from_this(), batch, write]() mutable {
        self->Serve(batch, std::move(write));
      }).detach();
    }
  }

  void OnCancel() override { interruption_->Cancel(); }

  // Blocking calls are over when the application drops the stream.
  void OnDropped() override {
    std::shared_ptr<Road> relay;
    {
      MutexLock lock(mu_);
      if (state_ == State::kOver) return;
      relay = relay_;
    }
    if (relay != nullptr) {
      relay->OnDropped();
    } else {
      core_->Abandon();
      attempt_->Cancel();
    }
  }

 private:
  enum class State {
    kRunning,   // the first attempt
    kDeciding,  // it has ended, or is broken; one thread finds out what that
                // means, the others wait
    kRelayed,
    kOver,
  };

  bool IsOnCallersThread(InterceptorBatchMethods* batch) {
    const std::thread::id here = std::this_thread::get_id();
    if (CalledFromBlockingApi(batch)) {
      callers_thread_.store(here, std::memory_order_relaxed);
      return true;
    }
    // The last batch of a client stream does not lie on the stack; its thread
    // is that of the one before.
    return callers_thread_.load(std::memory_order_relaxed) == here;
  }

  void Serve(InterceptorBatchMethods* batch, StreamWrite write) {
    if (write.empty()) {
      Receive(batch);
    } else {
      Send(batch, std::move(write));
    }
  }

  void Send(InterceptorBatchMethods* batch, StreamWrite write) {
    if (Enter()) {
      const bool ok = attempt_->Write(write);
      if (ok) {
        MutexLock lock(mu_);
        Keep(std::move(write));
      }
      Leave();
      if (ok) {
        batch->Proceed();
        return;
      }
      Conclude(/*finishes=*/false);
    }
    if (Relay(batch)) return;
    FailWrite(batch);
    batch->Proceed();
  }

  void Receive(InterceptorBatchMethods* batch) {
    const BatchWants wants(batch);
    bool got_message = false;
    if (Enter()) {
      got_message = ReadWhat(wants, batch);
      const bool arrived = !wants.status && (committed() || got_message) &&
                           (!wants.initial_metadata || attempt_->has_headers());
      if (arrived && wants.initial_metadata) {
        DeliverInitialMetadata(batch, *attempt_);
      }
      Leave();
      if (arrived || !Conclude(/*finishes=*/wants.status)) {
        if (wants.message && !got_message) batch->FailHijackedRecvMessage();
        batch->Proceed();
        return;
      }
    }
    if (Relay(batch)) return;
    Deliver(batch, *answer_, got_message);
    batch->Proceed();
  }

  // Receives what is wanted, but for the status. True: a message.
  bool ReadWhat(const BatchWants& wants, InterceptorBatchMethods* batch) {
    bool got_message = false;
    if (wants.message) {
      if (const std::optional<Reply> reply = replies_.At(batch)) {
        got_message = attempt_->Read(*reply);
      } else {
        attempt_->Cancel();
      }
    } else {
      attempt_->AwaitHeaders();
    }
    if (attempt_->has_headers()) ServerAnswers();
    return got_message;
  }

  // ---- Who may use the attempt.

  // True: the first attempt runs, and will not be replaced before Leave.
  bool Enter() {
    MutexLock lock(mu_);
    while (state_ == State::kDeciding) changed_.Wait(mu_);
    if (state_ != State::kRunning) return false;
    ++users_;
    return true;
  }

  void Leave() {
    MutexLock lock(mu_);
    --users_;
    changed_.NotifyAll();
  }

  // Hands `batch` over, if the call was.
  bool Relay(InterceptorBatchMethods* batch) {
    std::shared_ptr<Road> relay;
    {
      MutexLock lock(mu_);
      while (state_ == State::kDeciding) changed_.Wait(mu_);
      relay = relay_;
    }
    if (relay == nullptr) return false;
    relay->OnBatch(batch);
    return true;
  }

  // ---- What becomes of the call.

  void ServerAnswers() {
    {
      MutexLock lock(mu_);
      Commit();
      if (std::exchange(answers_, true)) return;
    }
    core_->ServerAnswers();
  }

  void Commit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    committed_ = true;
    sends_.Commit();
    changed_.NotifyAll();
  }

  bool committed() {
    MutexLock lock(mu_);
    return committed_;
  }

  // Keeps what was just written, in case that it has to be written again.
  void Keep(StreamWrite write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (committed_) return;
    sends_.AddWritten(std::move(write));
    if (sends_.bytes() > core_->buffer_limit()) Commit();
  }

  // An operation of the attempt has failed, or the application `finishes`:
  // takes the call to its end, or over to the relay. False: neither, because
  // the server's answer has reached the caller already and it is for the
  // application to go on.
  bool Conclude(bool finishes) {
    {
      MutexLock lock(mu_);
      if (!BeginDeciding(finishes)) return state_ != State::kRunning;
    }
    // Where an operation has failed the call is at its end: headers, or the
    // lack of them, come at once. But the status waits for messages to be read,
    // if there are any.
    attempt_->AwaitHeaders();
    if (attempt_->has_headers()) ServerAnswers();
    if (!finishes && committed()) {
      EndDeciding(State::kRunning);
      return false;
    }
    attempt_->AwaitStatus();
    {
      MutexLock lock(mu_);
      state_ = State::kDeciding;
      while (users_ > 0) changed_.Wait(mu_);
    }
    Decide();
    return true;
  }

  // False: another thread has decided, or it is decided.
  bool BeginDeciding(bool finishes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    // What the one that finishes finds out is for all; where the call goes on
    // all the same, it is committed.
    while (state_ == State::kDeciding || (finishing_ && !committed_)) {
      changed_.Wait(mu_);
    }
    if (state_ != State::kRunning) return false;
    // The application may go on writing while it waits for the status.
    if (finishes) return finishing_ = true;
    if (committed_) return false;
    state_ = State::kDeciding;
    // Whoever still reads receives the headers. One that has received something
    // makes all this superfluous.
    while (users_ > 0 && !committed_) changed_.Wait(mu_);
    if (!committed_) return true;
    state_ = State::kRunning;
    changed_.NotifyAll();
    return false;
  }

  void EndDeciding(State state) {
    MutexLock lock(mu_);
    state_ = state;
    finishing_ = false;
    changed_.NotifyAll();
  }

  // The attempt is over, and nobody else uses it.
  void Decide() {
    const grpc::Status ended_so =
        replies_.StatusOf(attempt_->status(), attempt_->undecodable());
    CallCore::Ended ended{ended_so, attempt_->context()};
    ended.committed = committed();
    const CallCore::Next next = core_->AfterAttempt(ended);
    if (!next.retry) {
      answer_ = Answer::FromAttempt(
          attempt_, replies_.FinalStatus(core_->FinalStatus(ended_so)),
          /*got_message=*/false);
      EndDeciding(State::kOver);
      return;
    }
    StreamHandover handover;
    handover.core = core_;
    handover.below = std::move(below_);
    handover.target = target_;
    handover.interruption = interruption_;
    handover.retry_at = next.at;
    {
      MutexLock lock(mu_);
      handover.sends = std::move(sends_);
    }
    std::shared_ptr<Road> relay =
        ContinueOnStreamRelayRoad(std::move(handover));
    {
      MutexLock lock(mu_);
      relay_ = std::move(relay);
    }
    EndDeciding(State::kRelayed);
  }

  const std::shared_ptr<CallCore> core_;
  const std::shared_ptr<Interruption> interruption_ =
      std::make_shared<Interruption>();
  const std::shared_ptr<BlockingStreamAttempt> attempt_ =
      std::make_shared<BlockingStreamAttempt>();
  StreamReplies replies_;
  std::unique_ptr<grpc::ChannelInterface> below_;
  AttemptTarget target_;
  std::atomic<std::thread::id> callers_thread_;

  Mutex mu_;
  CondVar changed_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kRunning;
  int users_ ABSL_GUARDED_BY(mu_) = 0;           // threads in an operation
  bool finishing_ ABSL_GUARDED_BY(mu_) = false;  // a thread awaits the status
  SendBuffer sends_ ABSL_GUARDED_BY(mu_);
  bool committed_ ABSL_GUARDED_BY(mu_) = false;
  bool answers_ ABSL_GUARDED_BY(mu_) = false;  // the core knows
  std::shared_ptr<Road> relay_ ABSL_GUARDED_BY(mu_);

  // Set before the state is kOver.
  std::optional<Answer> answer_;
};

}  // namespace

std::shared_ptr<Road> MakeInlineStreamRoad(std::shared_ptr<CallCore> core) {
  return std::make_shared<InlineStreamRoad>(std::move(core));
}

}  // namespace retry_guard::internal
