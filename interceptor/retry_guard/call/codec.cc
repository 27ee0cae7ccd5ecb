#include "retry_guard/call/codec.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <cstring>
#include <string>

#include "retry_guard/call/grpc_access.h"

namespace retry_guard::internal {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::MessageFactory;
using google::protobuf::MethodDescriptor;
using google::protobuf::MethodOptions;

const MethodDescriptor* FindMethod(std::string_view method) {
  if (method.empty() || method.front() != '/') return nullptr;
  std::string name(method.substr(1));
  const size_t slash = name.rfind('/');
  if (slash == std::string::npos) return nullptr;
  name[slash] = '.';
  return DescriptorPool::generated_pool()->FindMethodByName(name);
}

const void* FirstWord(const void* object) {
  const void* word = nullptr;
  std::memcpy(&word, object, sizeof(word));
  return word;
}

MessageKind KindOf(MessageCodec codec, const google::protobuf::Message* known,
                   const void* object) {
  switch (codec) {
    case MessageCodec::kProtobuf:
      return MessageKind::kProtobuf;
    case MessageCodec::kByteBuffer:
      return MessageKind::kByteBuffer;
    case MessageCodec::kAuto:
      break;
  }
  // A method that is not linked in may have messages of any type and size, too
  // small to read a word of them.
  if (known == nullptr || object == nullptr) return MessageKind::kUnknown;
  const void* const word = FirstWord(object);
  if (word == FirstWord(known)) return MessageKind::kProtobuf;
  if (word == nullptr) return MessageKind::kByteBuffer;
  return MessageKind::kUnknown;
}

}  // namespace

void Reply::Clear() const {
  switch (kind) {
    case MessageKind::kProtobuf:
      message()->Clear();
      break;
    case MessageKind::kByteBuffer:
      bytes()->Clear();
      break;
    case MessageKind::kUnknown:
      break;
  }
}

MethodTypes::MethodTypes(std::string_view method) {
  const MethodDescriptor* const descriptor = FindMethod(method);
  if (descriptor == nullptr) return;
  auto* const factory = MessageFactory::generated_factory();
  request_ = factory->GetPrototype(descriptor->input_type());
  response_ = factory->GetPrototype(descriptor->output_type());
  idempotent_ = descriptor->options().idempotency_level() !=
                MethodOptions::IDEMPOTENCY_UNKNOWN;
}

MessageKind MethodTypes::KindOfReply(MessageCodec codec,
                                     const void* reply) const {
  return KindOf(codec, response_, reply);
}

MessageKind MethodTypes::KindOfRequest(MessageCodec codec,
                                       const void* request) const {
  return KindOf(codec, request_, request);
}

std::unique_ptr<google::protobuf::Message> MethodTypes::NewReply() const {
  if (response_ == nullptr) return nullptr;
  return std::unique_ptr<google::protobuf::Message>(response_->New());
}

grpc::Status UndecodableReply() {
  return {grpc::StatusCode::INTERNAL,
          "retry_guard: the reply could not be decoded"};
}

Reply ScratchReply::Use(const MethodTypes& types, MessageCodec codec) {
  used_ = true;
  if (codec != MessageCodec::kByteBuffer) message_ = types.NewReply();
  if (message_ != nullptr) return {MessageKind::kProtobuf, message_.get()};
  return {MessageKind::kByteBuffer, &bytes_};
}

bool ScratchReply::MoveTo(const Reply& reply) {
  using google::protobuf::MessageLite;
  switch (reply.kind) {
    case MessageKind::kProtobuf: {
      MessageLite* const to = reply.message();
      to->Clear();
      if (message_ != nullptr) {
        to->CheckTypeAndMergeFrom(*message_);
        return true;
      }
      return grpc::SerializationTraits<MessageLite>::Deserialize(&bytes_, to)
          .ok();
    }
    case MessageKind::kByteBuffer: {
      if (message_ == nullptr) {
        reply.bytes()->Swap(&bytes_);
        return true;
      }
      bool own = false;
      return grpc::SerializationTraits<MessageLite>::Serialize(
                 *message_, reply.bytes(), &own)
          .ok();
    }
    case MessageKind::kUnknown:
      break;
  }
  return false;
}

}  // namespace retry_guard::internal
