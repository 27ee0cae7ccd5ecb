#include "retry_guard/call/unary_attempt.h"

#include <grpcpp/impl/call_op_set.h>
#include <grpcpp/impl/serialization_traits.h>

#include <atomic>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "retry_guard/call/batch_tag.h"
#include "retry_guard/call/grpc_access.h"
#include "retry_guard/call/sent_message.h"

namespace retry_guard::internal {
namespace {

using google::protobuf::MessageLite;
using grpc::internal::CallOpClientRecvStatus;
using grpc::internal::CallOpClientSendClose;
using grpc::internal::CallOpRecvInitialMetadata;
using grpc::internal::CallOpRecvMessage;
using grpc::internal::CallOpSendInitialMetadata;
using grpc::internal::CallOpSendMessage;
using grpc::internal::CallOpSet;

template <typename R>
R* ReplyObject(const Reply& reply);
template <>
MessageLite* ReplyObject<MessageLite>(const Reply& reply) {
  return reply.message();
}
template <>
grpc::ByteBuffer* ReplyObject<grpc::ByteBuffer>(const Reply& reply) {
  return reply.bytes();
}

// What both kinds have: the operations they are made of, and their end.
template <typename R>
class AttemptOf : public UnaryAttempt {
 protected:
  void Keep(std::shared_ptr<UnaryAttempt> self,
            std::shared_ptr<UnaryListener> listener) {
    self_ = std::move(self);
    listener_ = std::move(listener);
  }

  template <typename Ops>
  void AddSendOps(const UnaryPlan& plan, Ops* ops) {
    AddHeaders(ops);
    // Both only store the message: what can fail fails when it is sent.
    const grpc::Status stored = plan.request_message != nullptr
                                    ? SendMessagePtr(plan.request_message, ops)
                                    : SendMessage(plan.request_bytes, ops);
    if (!stored.ok()) std::abort();
    ops->ClientSendClose();
    ops->RecvInitialMetadata(&context_);
  }

  template <typename Ops>
  void AddReceiveOps(const UnaryPlan& plan, Ops* ops) {
    ops->RecvMessage(ReplyObject<R>(plan.reply));
    ops->AllowNoMessage();
    ops->ClientRecvStatus(&context_, &status_);
  }

  UnaryListener& listener() { return *listener_; }

  void Done() {
    const std::shared_ptr<UnaryAttempt> self = std::move(self_);
    const std::shared_ptr<UnaryListener> listener = std::move(listener_);
    listener->OnDone(*this);
  }

 private:
  std::shared_ptr<UnaryAttempt> self_;
  std::shared_ptr<UnaryListener> listener_;
};

// All in one batch.
template <typename R>
class WholeAttempt final : public AttemptOf<R> {
 public:
  void RunBlocking(const UnaryPlan& plan) override {
    PluckQueue queue;
    grpc::internal::Call call = this->CreateCall(plan.target, queue.get());
    this->AddSendOps(plan, &ops_);
    this->AddReceiveOps(plan, &ops_);
    ops_.FillOps(&call);
    const bool ok = queue.Pluck(&ops_);
    // A watch that ends later may be the last to hold this attempt.
    this->ReleaseChannel();
    this->Finish(ok, ops_.got_message);
  }

  void Start(const UnaryPlan& plan, std::shared_ptr<UnaryAttempt> self,
             std::shared_ptr<UnaryListener> listener) override {
    this->Keep(std::move(self), std::move(listener));
    grpc::internal::Call call = this->CreateCall(
        plan.target, GrpcAccess::CallbackCq(plan.target.channel));
    this->AddSendOps(plan, &ops_);
    this->AddReceiveOps(plan, &ops_);
    tag_.Attach(&ops_, this, [](void* self, bool ok) {
      auto* const attempt = static_cast<WholeAttempt*>(self);
      attempt->Finish(ok, attempt->ops_.got_message);
      attempt->Done();
    });
    ops_.FillOps(&call);
  }

 private:
  BatchTag tag_;
  CallOpSet<CallOpSendInitialMetadata, CallOpSendMessage,
            CallOpRecvInitialMetadata, CallOpRecvMessage<R>,
            CallOpClientSendClose, CallOpClientRecvStatus>
      ops_;
};

// In two, so that response headers are seen when they come.
template <typename R>
class HeadersFirstAttempt final : public AttemptOf<R> {
 public:
  void RunBlocking(const UnaryPlan& /*plan*/) override { std::abort(); }

  void Start(const UnaryPlan& plan, std::shared_ptr<UnaryAttempt> self,
             std::shared_ptr<UnaryListener> listener) override {
    this->Keep(std::move(self), std::move(listener));
    grpc::internal::Call call = this->CreateCall(
        plan.target, GrpcAccess::CallbackCq(plan.target.channel));
    this->AddSendOps(plan, &start_);
    start_tag_.Attach(&start_, this, [](void* self, bool ok) {
      auto* const attempt = static_cast<HeadersFirstAttempt*>(self);
      if (ok && !attempt->IsTrailersOnly()) {
        attempt->listener().OnHeaders(*attempt);
      }
      attempt->HalfDone();
    });
    this->AddReceiveOps(plan, &finish_);
    finish_tag_.Attach(&finish_, this, [](void* self, bool ok) {
      auto* const attempt = static_cast<HeadersFirstAttempt*>(self);
      attempt->Finish(ok, attempt->finish_.got_message);
      attempt->HalfDone();
    });
    // `this` is there until both have ended, and so until both were started.
    start_.FillOps(&call);
    finish_.FillOps(&call);
  }

 private:
  void HalfDone() {
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) this->Done();
  }

  std::atomic<int> pending_{2};
  BatchTag start_tag_;
  BatchTag finish_tag_;
  CallOpSet<CallOpSendInitialMetadata, CallOpSendMessage, CallOpClientSendClose,
            CallOpRecvInitialMetadata>
      start_;
  CallOpSet<CallOpRecvMessage<R>, CallOpClientRecvStatus> finish_;
};

template <typename R>
std::shared_ptr<UnaryAttempt> CreateFor(bool report_headers) {
  if (report_headers) return std::make_shared<HeadersFirstAttempt<R>>();
  return std::make_shared<WholeAttempt<R>>();
}

}  // namespace

void UnaryPlan::TakeRequest(grpc::experimental::InterceptorBatchMethods* batch,
                            CallCore& core, bool caller_waits) {
  const void* const message = caller_waits ? SentObject(batch) : nullptr;
  if (message != nullptr &&
      core.method().types().KindOfRequest(core.channel().codec(), message) ==
          MessageKind::kProtobuf) {
    request_message = static_cast<const MessageLite*>(message);
  } else if (SendsMessage(batch)) {
    // Shared with the batch, not copied.
    request_bytes = *batch->GetSerializedSendMessage();
  }
}

std::shared_ptr<UnaryAttempt> UnaryAttempt::Create(MessageKind kind,
                                                   bool report_headers) {
  return kind == MessageKind::kProtobuf
             ? CreateFor<MessageLite>(report_headers)
             : CreateFor<grpc::ByteBuffer>(report_headers);
}

void UnaryAttempt::Finish(bool operations_ok, bool got_message) {
  got_message_ = got_message;
  touched_reply_ = got_message || !operations_ok;
  // The operations of an OK call fail for one thing only. What a bare channel
  // makes of it depends on the style of the call; here it is always the same.
  if (!operations_ok && status_.ok()) {
    got_message_ = false;
    status_ = UndecodableReply();
  }
}

}  // namespace retry_guard::internal
