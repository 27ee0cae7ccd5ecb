// An attempt of a call: a call of its own on the channel below our interceptor,
// with a ClientContext of its own.

#ifndef RETRY_GUARD_CALL_ATTEMPT_H_
#define RETRY_GUARD_CALL_ATTEMPT_H_

#include <grpcpp/client_context.h>
#include <grpcpp/impl/call.h>
#include <grpcpp/impl/channel_interface.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/support/status.h>

#include "retry_guard/call/grpc_access.h"

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

// Where an attempt goes. The pointers must outlive the attempt.
struct AttemptTarget {
  const void* channel_state = nullptr;        // for CreatingAttempt
  grpc::ChannelInterface* channel = nullptr;  // below our interceptor
  const grpc::internal::RpcMethod* method = nullptr;
};

// What all kinds of attempts have. Thread-compatible, except for Cancel, which
// may come from any thread at any time.
class Attempt {
 public:
  virtual ~Attempt() = default;
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  grpc::ClientContext& context() { return context_; }
  const grpc::ClientContext& context() const { return context_; }

  // One that was not started yet will end CANCELLED as soon as it is.
  void Cancel() { context_.TryCancel(); }

  // Once it has ended.
  const grpc::Status& status() const { return status_; }

  // No operation will be started any more, or the channel will be there anyway:
  // the attempt does not keep it.
  void ReleaseChannel() { GrpcAccess::ReleaseChannel(&context_); }

 protected:
  Attempt() = default;

  grpc::internal::Call CreateCall(const AttemptTarget& target,
                                  grpc::CompletionQueue* cq);

  // What the context says is sent, as the start of the call.
  template <typename Ops>
  void AddHeaders(Ops* ops) {
    ops->SendInitialMetadata(GrpcAccess::SendMetadata(&context_),
                             GrpcAccess::MetadataFlags(context_));
  }

  // The response headers that were received are all that there is: the server
  // answered with trailers only. Once the headers have been received.
  bool IsTrailersOnly();

  grpc::ClientContext context_;
  grpc::Status status_;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_ATTEMPT_H_
