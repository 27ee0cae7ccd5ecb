#include "retry_guard/call/blocking_loop.h"

#include <optional>
#include <utility>

#include "absl/synchronization/notification.h"
#include "retry_guard/call/parent_watch.h"

namespace retry_guard::internal {

using grpc::experimental::InterceptorBatchMethods;

void BlockingLoop::TakeRequest(InterceptorBatchMethods* batch) {
  const void* const message = batch->GetSendMessage();
  const MessageKind kind =
      core_->method().types().KindOfRequest(core_->channel().codec(), message);
  if (message != nullptr && kind == MessageKind::kProtobuf) {
    plan_.request_message =
        static_cast<const google::protobuf::MessageLite*>(message);
  } else {
    request_ = *batch->GetSerializedSendMessage();
    plan_.request_bytes = &request_;
  }
}

void BlockingLoop::TakeTarget(InterceptorBatchMethods* batch) {
  below_ = batch->GetInterceptedChannel();
  plan_.target = core_->TargetBelow(below_.get());
}

Answer BlockingLoop::Run() {
  for (;;) {
    auto attempt = UnaryAttempt::Create(plan_.reply.kind);
    core_->FillContext(&attempt->context());
    interruption_.BeginAttempt(attempt);
    attempt->RunBlocking(plan_);
    const CallCore::Next next =
        core_->AfterAttempt({attempt->status(), attempt->context()});
    if (!next.retry) {
      grpc::Status status = core_->FinalStatus(attempt->status());
      const bool got_message = attempt->got_message();
      return Answer::FromAttempt(std::move(attempt), std::move(status),
                                 got_message);
    }
    if (attempt->touched_reply()) plan_.reply.Clear();
    attempt.reset();
    Wait(next.at);
    if (std::optional<KeptAnswer> refusal = core_->BeforeAttempt()) {
      return Answer::FromKept(*std::move(refusal));
    }
  }
}

Answer BlockingLoop::RetryAt(absl::Time when) {
  Wait(when);
  if (std::optional<KeptAnswer> refusal = core_->BeforeAttempt()) {
    return Answer::FromKept(*std::move(refusal));
  }
  return Run();
}

void BlockingLoop::Wait(absl::Time until) {
  const auto over = std::make_shared<absl::Notification>();
  const std::shared_ptr<Interruption> interruption(shared_from_this(),
                                                   &interruption_);
  const uint64_t wait = interruption_.BeginWait();
  const std::shared_ptr<ParentWatch> watch =
      ParentWatch::Start(core_, interruption, *plan_.target.method);
  interruption_.SetTimer(
      wait, core_->channel().clock().StartTimer(
                until, [over](bool /*fired*/) { over->Notify(); }));
  over->WaitForNotification();
  if (watch != nullptr) watch->Stop();
}

}  // namespace retry_guard::internal
