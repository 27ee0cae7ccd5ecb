#include <optional>
#include <utility>

#include "absl/synchronization/notification.h"
#include "retry_guard/call/delivery.h"
#include "retry_guard/call/interruption.h"
#include "retry_guard/call/parent_watch.h"
#include "retry_guard/call/road.h"
#include "retry_guard/call/unary_attempt.h"

namespace retry_guard::internal {
namespace {

using grpc::experimental::InterceptorBatchMethods;

// For a unary call of the blocking API that cannot be its own first attempt:
// everything happens on the caller's own thread, which is blocked anyway, so
// that a call that goes well costs no hop to another one. Cancellation alone
// comes from elsewhere.
class InlineRoad final : public Road {
 public:
  explicit InlineRoad(std::shared_ptr<CallCore> core)
      : core_(std::move(core)) {}

  void OnStart(InterceptorBatchMethods* batch) override {
    TakeRequest(batch);
    batch->Hijack();  // the batch comes again, to receive
  }

  void OnBatch(InterceptorBatchMethods* batch) override {
    if (BatchWants(batch).status) {
      answer_ = Run(batch->GetRecvMessage());
      Deliver(batch, answer_);
    }
    batch->Proceed();
  }

  void OnCancel() override { interruption_->Cancel(); }

 private:
  void TakeRequest(InterceptorBatchMethods* batch) {
    below_ = batch->GetInterceptedChannel();
    const void* const message = batch->GetSendMessage();
    const MessageKind kind = core_->method().types().KindOfRequest(
        core_->channel().codec(), message);
    if (message != nullptr && kind == MessageKind::kProtobuf) {
      plan_.request_message =
          static_cast<const google::protobuf::MessageLite*>(message);
    } else {
      request_bytes_ = *batch->GetSerializedSendMessage();
      plan_.request_bytes = &request_bytes_;
    }
    plan_.target = core_->TargetBelow(below_.get());
  }

  Answer Run(void* reply) {
    plan_.reply.object = reply;
    plan_.reply.kind =
        core_->method().types().KindOfReply(core_->channel().codec(), reply);
    // The first attempt has its permission already: it chose this road.
    for (;;) {
      auto attempt = UnaryAttempt::Create(plan_.reply.kind);
      core_->FillContext(&attempt->context());
      interruption_->BeginAttempt(attempt);
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

  void Wait(absl::Time until) {
    const auto over = std::make_shared<absl::Notification>();
    const uint64_t wait = interruption_->BeginWait();
    const std::shared_ptr<ParentWatch> watch =
        ParentWatch::Start(core_, interruption_, *plan_.target.method);
    interruption_->SetTimer(
        wait, core_->channel().clock().StartTimer(
                  until, [over](bool /*fired*/) { over->Notify(); }));
    over->WaitForNotification();
    if (watch != nullptr) watch->Stop();
  }

  const std::shared_ptr<CallCore> core_;
  const std::shared_ptr<Interruption> interruption_ =
      std::make_shared<Interruption>();
  std::unique_ptr<grpc::ChannelInterface> below_;
  grpc::ByteBuffer request_bytes_;
  UnaryPlan plan_;
  Answer answer_;
};

}  // namespace

std::shared_ptr<Road> MakeInlineRoad(std::shared_ptr<CallCore> core) {
  return std::make_shared<InlineRoad>(std::move(core));
}

}  // namespace retry_guard::internal
