// The one line that changes where a channel is made:
//
//   auto channel = retry_guard::CreateChannel(
//       "dns:///inventory:443", grpc::SslCredentials({}), options);
//   if (!channel.ok()) return channel.status();  // every error in the policy
//   auto stub = Inventory::NewStub(*channel);

#ifndef RETRY_GUARD_CHANNEL_H_
#define RETRY_GUARD_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "retry_guard/interceptor.h"
#include "retry_guard/policy/export.h"

namespace retry_guard {

// A channel with the plugin in and the retries of gRPC core off: there must be
// one retry loop, not two. `before_ours` are interceptor factories that see
// each call once, whatever retry_guard makes of it; null pointers are left out.
// What `options.core_retries_off` and GRPC_ARG_ENABLE_RETRIES in `arguments`
// say does not matter. `credentials` as for gRPC itself.
//
// The policy is `options.service_config_json`, else the service config in
// `arguments` (ChannelArguments::SetServiceConfigJSON), else what the name
// resolver delivers. An explicit policy is handed to core as well, spelt so
// that core accepts it, so that the keys that are not ours (load balancing, …)
// work. Core's copy has no `timeout`: that of a method is kept by retry_guard
// alone.
//
// INVALID_ARGUMENT with every error if the policy is bad. A bad target makes a
// lame channel, as with gRPC itself. Thread-safe.
RETRY_GUARD_EXPORT absl::StatusOr<std::shared_ptr<grpc::Channel>> CreateChannel(
    const std::string& target,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    InterceptorOptions options = {}, grpc::ChannelArguments arguments = {},
    std::vector<
        std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
        before_ours = {});

}  // namespace retry_guard

#endif  // RETRY_GUARD_CHANNEL_H_
