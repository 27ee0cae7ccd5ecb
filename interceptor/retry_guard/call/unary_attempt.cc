#include "retry_guard/call/unary_attempt.h"

#include <grpcpp/impl/call_op_set.h>
#include <grpcpp/impl/serialization_traits.h>

#include <atomic>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "retry_guard/call/batch_tag.h"
#include "retry_guard/call/grpc_access.h"

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

template <typename R>
class AttemptOf final : public UnaryAttempt {
 public:
  void RunBlocking(const UnaryPlan& plan) override {
    PluckQueue queue;
    grpc::internal::Call call = CreateCall(plan.target, queue.get());
    AddSendOps(plan, &whole_);
    whole_.ClientSendClose();
    AddReceiveOps(plan, &whole_);
    whole_.RecvInitialMetadata(&context_);
    whole_.FillOps(&call);
    const bool ok = queue.Pluck(&whole_);
    Finish(ok, whole_.got_message);
  }

  void Start(const UnaryPlan& plan, std::shared_ptr<UnaryAttempt> self,
             std::shared_ptr<UnaryListener> listener,
             bool report_headers) override {
    self_ = std::move(self);
    listener_ = std::move(listener);
    grpc::internal::Call call =
        CreateCall(plan.target, GrpcAccess::CallbackCq(plan.target.channel));
    if (report_headers) {
      StartInTwo(plan, call);
    } else {
      StartWhole(plan, call);
    }
  }

 private:
  template <typename Ops>
  void AddSendOps(const UnaryPlan& plan, Ops* ops) {
    AddHeaders(ops);
    // Both only store the message: what can fail fails when it is sent.
    const grpc::Status stored = plan.request_message != nullptr
                                    ? SendMessagePtr(plan.request_message, ops)
                                    : SendMessage(*plan.request_bytes, ops);
    if (!stored.ok()) std::abort();
  }

  template <typename Ops>
  void AddReceiveOps(const UnaryPlan& plan, Ops* ops) {
    ops->RecvMessage(ReplyObject<R>(plan.reply));
    ops->AllowNoMessage();
    ops->ClientRecvStatus(&context_, &status_);
  }

  void StartWhole(const UnaryPlan& plan, grpc::internal::Call call) {
    AddSendOps(plan, &whole_);
    whole_.ClientSendClose();
    whole_.RecvInitialMetadata(&context_);
    AddReceiveOps(plan, &whole_);
    finish_tag_.Attach(&whole_, this, [](void* self, bool ok) {
      auto* const attempt = static_cast<AttemptOf*>(self);
      attempt->Finish(ok, attempt->whole_.got_message);
      attempt->Done();
    });
    whole_.FillOps(&call);
  }

  void StartInTwo(const UnaryPlan& plan, grpc::internal::Call call) {
    pending_.store(2, std::memory_order_relaxed);
    AddSendOps(plan, &start_);
    start_.ClientSendClose();
    start_.RecvInitialMetadata(&context_);
    start_tag_.Attach(&start_, this, [](void* self, bool ok) {
      auto* const attempt = static_cast<AttemptOf*>(self);
      if (ok && !attempt->IsTrailersOnly()) {
        attempt->listener_->OnHeaders(*attempt);
      }
      attempt->HalfDone();
    });
    AddReceiveOps(plan, &finish_);
    finish_tag_.Attach(&finish_, this, [](void* self, bool ok) {
      auto* const attempt = static_cast<AttemptOf*>(self);
      attempt->Finish(ok, attempt->finish_.got_message);
      attempt->HalfDone();
    });
    // The second half may end, and take `this` with it, before the first
    // FillOps returns only if both were started.
    start_.FillOps(&call);
    finish_.FillOps(&call);
  }

  void HalfDone() {
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) Done();
  }

  void Done() {
    const std::shared_ptr<UnaryAttempt> self = std::move(self_);
    const std::shared_ptr<UnaryListener> listener = std::move(listener_);
    // The answer may make the application drop the channel; the caller's own
    // context has kept it until here. Ours must not be the last to let go of
    // it, on a thread of the channel's own queue.
    GrpcAccess::ReleaseChannel(&context_);
    listener->OnDone(*this);
  }

  using Whole = CallOpSet<CallOpSendInitialMetadata, CallOpSendMessage,
                          CallOpRecvInitialMetadata, CallOpRecvMessage<R>,
                          CallOpClientSendClose, CallOpClientRecvStatus>;
  using StartHalf = CallOpSet<CallOpSendInitialMetadata, CallOpSendMessage,
                              CallOpClientSendClose, CallOpRecvInitialMetadata>;
  using FinishHalf = CallOpSet<CallOpRecvMessage<R>, CallOpClientRecvStatus>;

  std::shared_ptr<UnaryAttempt> self_;
  std::shared_ptr<UnaryListener> listener_;
  std::atomic<int> pending_{1};
  BatchTag start_tag_;
  BatchTag finish_tag_;
  Whole whole_;
  StartHalf start_;
  FinishHalf finish_;
};

}  // namespace

std::shared_ptr<UnaryAttempt> UnaryAttempt::Create(MessageKind kind) {
  if (kind == MessageKind::kProtobuf) {
    return std::make_shared<AttemptOf<MessageLite>>();
  }
  return std::make_shared<AttemptOf<grpc::ByteBuffer>>();
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
