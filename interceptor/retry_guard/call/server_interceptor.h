// The server interceptor of one inbound call.

#ifndef RETRY_GUARD_CALL_SERVER_INTERCEPTOR_H_
#define RETRY_GUARD_CALL_SERVER_INTERCEPTOR_H_

#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <optional>

#include "retry_guard/call/inbound_call.h"
#include "retry_guard/call/metadata.h"
#include "retry_guard/server.h"

namespace retry_guard::internal {

// What the three keys of the marker say in `metadata`.
std::optional<RetryMarker> ReadMarkerFrom(const ReceivedMetadata& metadata);

// Owned by the inbound call's context, which may be dropped at any point of it.
class ServerInterceptor final : public grpc::experimental::Interceptor {
 public:
  ServerInterceptor(grpc::experimental::ServerRpcInfo* info, Inbound trust)
      : context_(info->server_context()), trust_(trust) {}
  ~ServerInterceptor() override;

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override;

 private:
  void Register(const ReceivedMetadata& metadata);
  void AddPushback(grpc::experimental::InterceptorBatchMethods* batch);

  grpc::ServerContextBase* const context_;
  const Inbound trust_;
  const grpc_call* call_ = nullptr;
  std::shared_ptr<InboundCall> inbound_;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_SERVER_INTERCEPTOR_H_
