#include "retry_guard/call/stream_replies.h"

namespace retry_guard::internal {

std::optional<Reply> StreamReplies::At(
    grpc::experimental::InterceptorBatchMethods* batch) {
  void* const object = batch->GetRecvMessage();
  if (kind_ == MessageKind::kUnknown) {
    kind_ = core_.method().types().KindOfReply(core_.channel().codec(), object);
  }
  if (kind_ != MessageKind::kUnknown) return Reply{kind_, object};
  unknown_ = true;
  core_.ForbidRetries(Reason::kUnknownMessageType);
  return std::nullopt;
}

// The one reply of a client stream is treated as that of a unary call is.
grpc::Status StreamReplies::StatusOf(grpc::Status status,
                                     bool undecodable) const {
  if (undecodable && status.ok() && core_.receives_one_message()) {
    return UndecodableReply();
  }
  return status;
}

grpc::Status StreamReplies::FinalStatus(grpc::Status status) const {
  if (!unknown_) return status;
  return {grpc::StatusCode::INTERNAL,
          "retry_guard: it cannot be known what the reply object is; see "
          "InterceptorOptions::codec"};
}

}  // namespace retry_guard::internal
