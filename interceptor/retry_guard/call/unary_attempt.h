// An attempt of a unary call.
//
// Interceptors after ours see it as they would see a call of the application:
// the request is the caller's own message or already serialised, the reply is
// the caller's own object.

#ifndef RETRY_GUARD_CALL_UNARY_ATTEMPT_H_
#define RETRY_GUARD_CALL_UNARY_ATTEMPT_H_

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/interceptor.h>

#include <memory>

#include "retry_guard/call/attempt.h"
#include "retry_guard/call/call_core.h"
#include "retry_guard/call/codec.h"

namespace retry_guard::internal {

// What an attempt sends and where it puts what it receives. The pointers must
// outlive the attempt.
struct UnaryPlan {
  AttemptTarget target;
  // A message is serialised by gRPC when it is sent; null: the bytes are it.
  const google::protobuf::MessageLite* request_message = nullptr;
  grpc::ByteBuffer request_bytes;
  Reply reply;

  // Sets the request to what `batch` sends. Unless its caller waits for the
  // call, the message may be changed or dropped as soon as the call has
  // started: then each attempt sends the same bytes. (A message itself is
  // something that interceptors after ours can look at.)
  void TakeRequest(grpc::experimental::InterceptorBatchMethods* batch,
                   CallCore& core, bool caller_waits);
};

// Told about an attempt that runs asynchronously, on a thread of gRPC's, with
// no lock held. OnHeaders comes at most once and before OnDone; OnDone comes
// exactly once.
class UnaryAttempt;
class UnaryListener {
 public:
  virtual ~UnaryListener() = default;

  // The server has sent response headers, and more will follow them: this is
  // no answer of trailers only. Only if the attempt was created with
  // `report_headers`.
  virtual void OnHeaders(UnaryAttempt& attempt) = 0;

  virtual void OnDone(UnaryAttempt& attempt) = 0;
};

class UnaryAttempt : public Attempt {
 public:
  // An attempt that was not started yet; its context is to be filled in first.
  static std::shared_ptr<UnaryAttempt> Create(MessageKind kind,
                                              bool report_headers = false);

  // Runs it to its end on this thread. Not if it is to report headers.
  virtual void RunBlocking(const UnaryPlan& plan) = 0;

  // Starts it. `self` and `listener` are kept until OnDone has returned.
  virtual void Start(const UnaryPlan& plan, std::shared_ptr<UnaryAttempt> self,
                     std::shared_ptr<UnaryListener> listener) = 0;

  // Once it has ended. An OK answer whose message cannot be decoded is
  // INTERNAL.
  bool got_message() const { return got_message_; }

  // The reply object is not what it was before; a failed attempt, too, may have
  // sent a message.
  bool touched_reply() const { return touched_reply_; }

 protected:
  UnaryAttempt() = default;

  void Finish(bool operations_ok, bool got_message);

  bool got_message_ = false;
  bool touched_reply_ = false;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_UNARY_ATTEMPT_H_
