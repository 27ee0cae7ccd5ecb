#include "retry_guard/call/attempt.h"

#include <grpcpp/support/client_callback.h>

namespace retry_guard::internal {
namespace {

thread_local const void* creating_for = nullptr;

// gRPC shows whether an answer was trailers only to its reactors alone.
class TrailersOnly final : public grpc::internal::ClientReactor {
 public:
  void OnDone(const grpc::Status& /*status*/) override {}
};

}  // namespace

CreatingAttempt::CreatingAttempt(const void* channel_state)
    : outer_(creating_for) {
  creating_for = channel_state;
}

CreatingAttempt::~CreatingAttempt() { creating_for = outer_; }

bool CreatingAttempt::IsActiveFor(const void* channel_state) {
  return creating_for == channel_state;
}

grpc::internal::Call Attempt::CreateCall(const AttemptTarget& target,
                                         grpc::CompletionQueue* cq) {
  CreatingAttempt mark(target.channel_state);
  return GrpcAccess::CreateCall(target.channel, *target.method, &context_, cq);
}

bool Attempt::IsTrailersOnly() {
  return TrailersOnly().InternalTrailersOnly(context_.c_call());
}

}  // namespace retry_guard::internal
