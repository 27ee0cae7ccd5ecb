// What a stream sends, one operation at a time.

#ifndef RETRY_GUARD_CALL_STREAM_WRITE_H_
#define RETRY_GUARD_CALL_STREAM_WRITE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/interceptor.h>

#include "retry_guard/call/sent_message.h"

namespace retry_guard::internal {

// A message, the half-close, or both at once.
struct StreamWrite {
  grpc::ByteBuffer message;
  bool has_message = false;
  bool closes = false;

  bool empty() const { return !has_message && !closes; }
};

// What `batch`, which comes to send, wants to send; empty if nothing (but
// headers). The batch keeps its own: it may be asked again.
inline StreamWrite WriteOf(grpc::experimental::InterceptorBatchMethods* batch) {
  StreamWrite write;
  write.has_message = SendsMessage(batch);
  // Serialised here, if it was not before, and in any case shared, not copied.
  if (write.has_message) write.message = *batch->GetSerializedSendMessage();
  write.closes = batch->QueryInterceptionHookPoint(
      grpc::experimental::InterceptionHookPoints::PRE_SEND_CLOSE);
  return write;
}

// Tells the application that what `batch`, which comes to send, wants to write
// arrives nowhere. (gRPC has no way to say that of a half-close alone.)
inline void FailWrite(grpc::experimental::InterceptorBatchMethods* batch) {
  if (SendsMessage(batch)) {
    batch->FailHijackedSendMessage();
  }
}

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_STREAM_WRITE_H_
