// What is behind the void* of an interceptor's GetRecvMessage.

#ifndef RETRY_GUARD_CALL_CODEC_H_
#define RETRY_GUARD_CALL_CODEC_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string_view>

#include "retry_guard/interceptor.h"

namespace retry_guard::internal {

enum class MessageKind { kUnknown, kProtobuf, kByteBuffer };

// Where a reply goes. Does not own it.
struct Reply {
  MessageKind kind = MessageKind::kUnknown;
  void* object = nullptr;

  google::protobuf::MessageLite* message() const {
    return static_cast<google::protobuf::MessageLite*>(object);
  }
  grpc::ByteBuffer* bytes() const {
    return static_cast<grpc::ByteBuffer*>(object);
  }

  // Forgets what was received into it.
  void Clear() const;
};

// What the generated pool knows of a method. Immutable, hence thread-safe.
class MethodTypes {
 public:
  // `method` is "/package.Service/Method".
  explicit MethodTypes(std::string_view method);

  bool known() const { return response_ != nullptr; }

  // idempotency_level is NO_SIDE_EFFECTS or IDEMPOTENT.
  bool idempotent() const { return idempotent_; }

  // What `reply` points at; never guesses. Reads the first word of the object,
  // which for a generated message is its vtable.
  MessageKind KindOfReply(MessageCodec codec, const void* reply) const;

  // The same for a request that was not serialised yet.
  MessageKind KindOfRequest(MessageCodec codec, const void* request) const;

  // An empty reply of this method; null if !known().
  std::unique_ptr<google::protobuf::Message> NewReply() const;

 private:
  const google::protobuf::Message* request_ = nullptr;
  const google::protobuf::Message* response_ = nullptr;
  bool idempotent_ = false;
};

// The status of a call whose one reply could not be decoded.
grpc::Status UndecodableReply();

// A reply object of our own, for a call that receives its reply before it is
// known where the application wants it.
class ScratchReply {
 public:
  bool used() const { return used_; }

  // What an attempt is to receive into.
  Reply Use(const MethodTypes& types, MessageCodec codec);

  // False if the two do not fit.
  bool MoveTo(const Reply& reply);

 private:
  bool used_ = false;
  std::unique_ptr<google::protobuf::Message> message_;  // else bytes_
  grpc::ByteBuffer bytes_;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_CODEC_H_
