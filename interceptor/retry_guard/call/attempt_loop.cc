#include "retry_guard/call/attempt_loop.h"

#include <optional>
#include <utility>

namespace retry_guard::internal {

using grpc::experimental::InterceptorBatchMethods;

void AttemptLoop::TakeTarget(InterceptorBatchMethods* batch) {
  below_ = batch->GetInterceptedChannel();
  plan_.target = core_->TargetBelow(below_.get());
}

void AttemptLoop::OnDone(UnaryAttempt& attempt) {
  const auto self = shared_from_this();  // the answer may end the caller
  if (!BeginUse()) return;
  // The answer may make the application drop the channel; its own context has
  // kept it until here. Ours must not be the last to let go of it, on a thread
  // of the channel's own queue.
  attempt.ReleaseChannel();
  CallCore::Ended ended{attempt.status(), attempt.context()};
  ended.committed = committed();
  const CallCore::Next next = core_->AfterAttempt(ended);
  if (!next.retry) {
    OnAnswer(Answer::FromAttempt(std::move(attempt_),
                                 core_->FinalStatus(attempt.status()),
                                 attempt.got_message()));
    return;
  }
  if (attempt.touched_reply()) plan_.reply.Clear();
  attempt_.reset();
  RetryAt(next.at);
  EndUse();
}

void AttemptLoop::Abandon() {
  core_->Abandon();
  if (watch_ != nullptr) std::exchange(watch_, nullptr)->Stop();
  interruption_.Cancel();
  if (attempt_ != nullptr) attempt_->ReleaseChannel();
}

void AttemptLoop::StartFirstAttempt() {
  if (!BeginUse()) return;
  StartAttempt();
  EndUse();
}

void AttemptLoop::StartAttempt() {
  attempt_ = UnaryAttempt::Create(plan_.reply.kind, report_headers_);
  core_->FillContext(&attempt_->context());
  interruption_.BeginAttempt(attempt_);
  // A copy: the attempt may end, and be replaced, before Start returns.
  const std::shared_ptr<UnaryAttempt> attempt = attempt_;
  attempt->Start(plan_, attempt, shared_from_this());
}

void AttemptLoop::RetryAt(absl::Time when) {
  const uint64_t wait = interruption_.BeginWait();
  watch_ = ParentWatch::Start(core_, interruption(), *plan_.target.method);
  const auto timer = core_->channel().clock().StartTimer(
      when, [self = shared_from_this()](bool /*fired*/) { self->WaitOver(); });
  interruption_.SetTimer(wait, timer);
}

void AttemptLoop::WaitOver() {
  if (!BeginUse()) return;
  if (watch_ != nullptr) std::exchange(watch_, nullptr)->Stop();
  if (std::optional<KeptAnswer> refusal = core_->BeforeAttempt()) {
    OnAnswer(Answer::FromKept(*std::move(refusal)));
    return;
  }
  StartAttempt();
  EndUse();
}

}  // namespace retry_guard::internal
