#include "retry_guard/call/unary_ops.h"

#include <google/protobuf/message_lite.h>
#include <grpcpp/impl/call_op_set.h>
#include <grpcpp/support/byte_buffer.h>

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
using grpc::internal::CallOpSetInterface;
using grpc::internal::InterceptorBatchMethodsImpl;

// Of the blocking and of the callback API.
template <typename R>
using DirectOps = CallOpSet<CallOpSendInitialMetadata, CallOpSendMessage,
                            CallOpRecvInitialMetadata, CallOpRecvMessage<R>,
                            CallOpClientSendClose, CallOpClientRecvStatus>;
// Of the completion-queue API.
template <typename R>
using QueuedOps = CallOpSet<CallOpSendInitialMetadata, CallOpSendMessage,
                            CallOpClientSendClose, CallOpRecvInitialMetadata,
                            CallOpRecvMessage<R>, CallOpClientRecvStatus>;

// A private member by name: Private(Tag()) is a pointer to the one that Reveal
// was instantiated for.
template <typename Tag, typename Tag::Member kMember>
struct Reveal {
  friend typename Tag::Member Private(Tag /*tag*/) { return kMember; }
};

struct Operations {
  using Member = CallOpSetInterface* InterceptorBatchMethodsImpl::*;
  friend Member Private(Operations /*tag*/);
};
template struct Reveal<Operations, &InterceptorBatchMethodsImpl::ops_>;

struct DirectMessage {
  using Ops = DirectOps<MessageLite>;
  using Member = bool Ops::*;
  friend Member Private(DirectMessage /*tag*/);
};
template struct Reveal<DirectMessage, &DirectMessage::Ops::saved_status_>;

struct DirectBytes {
  using Ops = DirectOps<grpc::ByteBuffer>;
  using Member = bool Ops::*;
  friend Member Private(DirectBytes /*tag*/);
};
template struct Reveal<DirectBytes, &DirectBytes::Ops::saved_status_>;

struct QueuedMessage {
  using Ops = QueuedOps<MessageLite>;
  using Member = bool Ops::*;
  friend Member Private(QueuedMessage /*tag*/);
};
template struct Reveal<QueuedMessage, &QueuedMessage::Ops::saved_status_>;

struct QueuedBytes {
  using Ops = QueuedOps<grpc::ByteBuffer>;
  using Member = bool Ops::*;
  friend Member Private(QueuedBytes /*tag*/);
};
template struct Reveal<QueuedBytes, &QueuedBytes::Ops::saved_status_>;

struct Flags {
  bool* got_message = nullptr;
  bool* succeeded = nullptr;
};

template <typename Kind>
Flags Find(CallOpSetInterface* behind) {
  auto* const ops = dynamic_cast<typename Kind::Ops*>(behind);
  if (ops == nullptr) return {};
  return {&ops->got_message, &(ops->*Private(Kind()))};
}

}  // namespace

UnaryOps UnaryOps::Behind(grpc::experimental::InterceptorBatchMethods* batch,
                          MessageKind kind) {
  auto* const methods = dynamic_cast<InterceptorBatchMethodsImpl*>(batch);
  if (methods == nullptr) return {};
  CallOpSetInterface* const behind = methods->*Private(Operations());
  // A completion-queue call has serialised its message by now. To look for the
  // wrong type first would cost as much as all the rest.
  const bool queued = SentObject(batch) == nullptr;
  Flags flags;
  if (kind == MessageKind::kProtobuf) {
    flags = queued ? Find<QueuedMessage>(behind) : Find<DirectMessage>(behind);
  } else {
    flags = queued ? Find<QueuedBytes>(behind) : Find<DirectBytes>(behind);
  }
  UnaryOps ops;
  ops.methods_ = methods;
  ops.got_message_ = flags.got_message;
  ops.succeeded_ = flags.succeeded;
  return ops;
}

void UnaryOps::Overwrite(void* message) const {
  *got_message_ = message != nullptr;
  *succeeded_ = true;
  methods_->SetRecvMessage(message, nullptr);
}

}  // namespace retry_guard::internal
