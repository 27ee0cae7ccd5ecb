// Where a stream's messages go that it receives.

#ifndef RETRY_GUARD_CALL_STREAM_REPLIES_H_
#define RETRY_GUARD_CALL_STREAM_REPLIES_H_

#include <grpcpp/support/interceptor.h>
#include <grpcpp/support/status.h>

#include <optional>

#include "retry_guard/call/call_core.h"
#include "retry_guard/call/codec.h"

namespace retry_guard::internal {

// The reply objects of one stream. Used by the reading side alone; `core` must
// outlive it.
class StreamReplies {
 public:
  explicit StreamReplies(CallCore& core) : core_(core) {}

  // The one that `batch` wants filled. Nothing if it cannot be known what it
  // is: then the call, which will be cancelled for that, is not to be repeated.
  std::optional<Reply> At(grpc::experimental::InterceptorBatchMethods* batch);

  // What the `status` of an attempt is whose last read was `undecodable`.
  grpc::Status StatusOf(grpc::Status status, bool undecodable) const;

  // What the call's `status` is.
  grpc::Status FinalStatus(grpc::Status status) const;

 private:
  CallCore& core_;
  // That of the first one is that of all: a ByteBuffer that is used again does
  // not look like one any more.
  MessageKind kind_ = MessageKind::kUnknown;
  bool unknown_ = false;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_STREAM_REPLIES_H_
