#include "retry_guard/call/stream_attempt.h"

#include <grpc/grpc.h>
#include <grpcpp/impl/serialization_traits.h>

#include <cstdlib>
#include <utility>

#include "retry_guard/call/grpc_access.h"

namespace retry_guard::internal {
namespace {

using grpc::internal::CallOpClientRecvStatus;
using grpc::internal::CallOpClientSendClose;
using grpc::internal::CallOpRecvInitialMetadata;
using grpc::internal::CallOpRecvMessage;
using grpc::internal::CallOpSendInitialMetadata;
using grpc::internal::CallOpSendMessage;
using grpc::internal::CallOpSet;

template <typename Ops>
void AddWrite(const StreamWrite& write, Ops* ops) {
  if (write.has_message) {
    // Only stores the bytes: what can fail fails when they are sent.
    if (!SendMessage(write.message, ops).ok()) std::abort();
  }
  if (write.closes) ops->ClientSendClose();
}

}  // namespace

void StreamAttempt::Start(const AttemptTarget& target,
                          std::shared_ptr<StreamListener> listener,
                          const StreamWrite* first) {
  listener_ = std::move(listener);
  call_ = CreateCall(target, GrpcAccess::CallbackCq(target.channel));
  AddHeaders(&start_);
  if (first != nullptr) AddWrite(*first, &start_);
  Send(&start_);

  headers_tag_.Attach(&headers_, this, [](void* self, bool ok) {
    auto* const attempt = static_cast<StreamAttempt*>(self);
    // gRPC makes its map of them when they are first asked for. Who is told of
    // them next and who sees the status may be two threads.
    attempt->context_.GetServerInitialMetadata();
    attempt->listener_->OnHeaders(!ok || attempt->IsTrailersOnly());
  });
  headers_.RecvInitialMetadata(&context_);
  headers_.FillOps(&call_);

  status_tag_.Attach(&status_ops_, this, [](void* self, bool /*ok*/) {
    static_cast<StreamAttempt*>(self)->listener_->OnStatus();
  });
  status_ops_.ClientRecvStatus(&context_, &status_);
  status_ops_.FillOps(&call_);
}

void StreamAttempt::Write(const StreamWrite& write) {
  AddWrite(write, &write_);
  Send(&write_);
}

template <typename Ops>
void StreamAttempt::Send(Ops* ops) {
  send_tag_.Attach(ops, this, [](void* self, bool ok) {
    static_cast<StreamAttempt*>(self)->listener_->OnWritten(ok);
  });
  ops->FillOps(&call_);
}

void StreamAttempt::Read(const Reply& reply) {
  if (reply.kind == MessageKind::kProtobuf) {
    ReadInto<&StreamAttempt::read_message_>(reply.message());
  } else {
    ReadInto<&StreamAttempt::read_bytes_>(reply.bytes());
  }
}

template <auto kOps, typename R>
void StreamAttempt::ReadInto(R* reply) {
  ReadOps<R>& ops = this->*kOps;
  read_tag_.Attach(&ops, this, [](void* self, bool ok) {
    auto* const attempt = static_cast<StreamAttempt*>(self);
    attempt->listener_->OnRead(ok, (attempt->*kOps).got_message);
  });
  ops.RecvMessage(reply);
  ops.AllowNoMessage();
  ops.FillOps(&call_);
}

void StreamAttempt::TimeOut() {
  grpc_call_cancel_with_status(context_.c_call(), GRPC_STATUS_DEADLINE_EXCEEDED,
                               "Deadline Exceeded", nullptr);
}

bool BlockingStreamAttempt::Start(const AttemptTarget& target,
                                  const StreamWrite* first) {
  call_ = CreateCall(target, queue_.get());
  CallOpSet<CallOpSendInitialMetadata, CallOpSendMessage, CallOpClientSendClose>
      ops;
  AddHeaders(&ops);
  if (first != nullptr) AddWrite(*first, &ops);
  ops.FillOps(&call_);
  return queue_.Pluck(&ops);
}

bool BlockingStreamAttempt::Write(const StreamWrite& write) {
  CallOpSet<CallOpSendMessage, CallOpClientSendClose> ops;
  AddWrite(write, &ops);
  ops.FillOps(&call_);
  return queue_.Pluck(&ops);
}

void BlockingStreamAttempt::AwaitHeaders() {
  if (headers_received_) return;
  CallOpSet<CallOpRecvInitialMetadata> ops;
  ops.RecvInitialMetadata(&context_);
  ops.FillOps(&call_);
  const bool ok = queue_.Pluck(&ops);
  headers_received_ = true;
  has_headers_ = ok && !IsTrailersOnly();
}

bool BlockingStreamAttempt::Read(const Reply& reply) {
  if (reply.kind == MessageKind::kProtobuf) return ReadInto(reply.message());
  return ReadInto(reply.bytes());
}

template <typename R>
bool BlockingStreamAttempt::ReadInto(R* reply) {
  // Of one batch for both nobody could tell what it is that failed: headers
  // that did not come, or a message that cannot be decoded.
  AwaitHeaders();
  CallOpSet<CallOpRecvMessage<R>> ops;
  ops.RecvMessage(reply);
  ops.AllowNoMessage();
  ops.FillOps(&call_);
  const bool ok = queue_.Pluck(&ops);
  undecodable_ = !ok;
  return ok && ops.got_message;
}

void BlockingStreamAttempt::AwaitStatus() {
  CallOpSet<CallOpClientRecvStatus> ops;
  ops.ClientRecvStatus(&context_, &status_);
  ops.FillOps(&call_);
  queue_.Pluck(&ops);
}

}  // namespace retry_guard::internal
