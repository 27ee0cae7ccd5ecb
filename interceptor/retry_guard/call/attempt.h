// One attempt: a unary call of its own on the channel below our interceptor,
// with a ClientContext of its own.
//
// Interceptors after ours see it as they would see a call of the application:
// the request is the caller's own message or already serialised, the reply is
// the caller's own object.

#ifndef RETRY_GUARD_CALL_ATTEMPT_H_
#define RETRY_GUARD_CALL_ATTEMPT_H_

#include <google/protobuf/message_lite.h>
#include <grpcpp/client_context.h>
#include <grpcpp/impl/channel_interface.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <memory>

#include "retry_guard/call/codec.h"

namespace retry_guard::internal {

// Whose calls are being created on this thread right now, for the factory to
// keep out of them: gRPC finds the interceptors "after" ours by an index that a
// null factory before ours makes wrong, and would then run ours again, for
// ever.
class CreatingAttempt {
 public:
  explicit CreatingAttempt(const void* channel_state);
  ~CreatingAttempt();
  CreatingAttempt(const CreatingAttempt&) = delete;
  CreatingAttempt& operator=(const CreatingAttempt&) = delete;

  static bool IsActiveFor(const void* channel_state);

 private:
  const void* const outer_;
};

// What an attempt sends and where it puts what it receives. The pointers must
// outlive the attempt.
struct AttemptPlan {
  const void* channel_state = nullptr;        // for CreatingAttempt
  grpc::ChannelInterface* channel = nullptr;  // below our interceptor
  const grpc::internal::RpcMethod* method = nullptr;
  // One of the two. A message is serialised by gRPC when it is sent.
  const google::protobuf::MessageLite* request_message = nullptr;
  const grpc::ByteBuffer* request_bytes = nullptr;
  Reply reply;
};

// Told about an attempt that runs asynchronously, on a thread of gRPC's, with
// no lock held. OnHeaders comes at most once and before OnDone; OnDone comes
// exactly once.
class Attempt;
class AttemptListener {
 public:
  virtual ~AttemptListener() = default;

  // The server has sent response headers, and more will follow them: this is
  // no answer of trailers only. Only if the attempt was started with
  // `report_headers`.
  virtual void OnHeaders(Attempt& attempt) = 0;

  virtual void OnDone(Attempt& attempt) = 0;
};

// Thread-compatible, except for Cancel, which may come from any thread at any
// time.
class Attempt {
 public:
  // An attempt that was not started yet; its context is to be filled in first.
  static std::shared_ptr<Attempt> Create(MessageKind kind);

  virtual ~Attempt() = default;
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  grpc::ClientContext& context() { return context_; }
  const grpc::ClientContext& context() const { return context_; }

  // Runs it to its end on this thread.
  virtual void RunBlocking(const AttemptPlan& plan) = 0;

  // Starts it. `self` and `listener` are kept until OnDone has returned.
  virtual void Start(const AttemptPlan& plan, std::shared_ptr<Attempt> self,
                     std::shared_ptr<AttemptListener> listener,
                     bool report_headers) = 0;

  // One that was not started yet will end CANCELLED as soon as it is.
  void Cancel() { context_.TryCancel(); }

  // Once it has ended. An OK answer whose message cannot be decoded is
  // INTERNAL.
  const grpc::Status& status() const { return status_; }
  bool got_message() const { return got_message_; }

  // The reply object is not what it was before; a failed attempt, too, may have
  // sent a message.
  bool touched_reply() const { return touched_reply_; }

 protected:
  Attempt() = default;

  void Finish(bool operations_ok, bool got_message);

  grpc::ClientContext context_;
  grpc::Status status_;
  bool got_message_ = false;
  bool touched_reply_ = false;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_ATTEMPT_H_
