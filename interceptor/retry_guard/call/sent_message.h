// The message that a batch sends, if it sends one.

#ifndef RETRY_GUARD_CALL_SENT_MESSAGE_H_
#define RETRY_GUARD_CALL_SENT_MESSAGE_H_

#include <grpcpp/support/interceptor.h>

namespace retry_guard::internal {

// A ByteBuffer that was never filled is none; and gRPC ends the process over
// who asks for a message that is not there.
inline bool SendsMessage(grpc::experimental::InterceptorBatchMethods* batch) {
  return batch->QueryInterceptionHookPoint(
      grpc::experimental::InterceptionHookPoints::PRE_SEND_MESSAGE);
}

// The application's own object. Null if it was serialised already, as for a
// completion queue, or if there is none.
inline const void* SentObject(
    grpc::experimental::InterceptorBatchMethods* batch) {
  return SendsMessage(batch) ? batch->GetSendMessage() : nullptr;
}

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_SENT_MESSAGE_H_
