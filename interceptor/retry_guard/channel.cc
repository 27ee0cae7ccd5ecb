#include "retry_guard/channel.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/support/validate_service_config.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "retry_guard/call/attempt.h"
#include "retry_guard/config/json.h"
#include "retry_guard/config/scalars.h"
#include "retry_guard/config/service_config.h"
#include "retry_guard/config/source_edits.h"

namespace retry_guard {
namespace {

// The service config that the application put into the arguments, or "".
std::string ServiceConfigOf(const grpc::ChannelArguments& arguments) {
  const grpc_channel_args args = arguments.c_channel_args();
  for (size_t i = 0; i < args.num_args; ++i) {
    const grpc_arg& arg = args.args[i];
    if (arg.type == GRPC_ARG_STRING &&
        std::string_view(arg.key) == GRPC_ARG_SERVICE_CONFIG) {
      return arg.value.string;
    }
  }
  return "";
}

// The `timeout` of a method is ours to keep: core would hold each attempt to
// it, also when UpdateServiceConfig has replaced it, and 1.51 ends a call one
// to two seconds too early by it, so that a short one fails every call at once.
// REQUIRES: `json` is a good service config.
std::string WithoutTimeouts(const std::string& json) {
  const auto root = ParseJson(json);
  if (!root.ok()) return json;
  const std::string never =
      absl::StrCat("\"", FormatJsonDuration(kMaxJsonDuration), "\"");
  SourceEdits edits;
  if (const JsonValue* const methods = root->Find("methodConfig")) {
    for (const JsonValue& method : methods->elements) {
      if (const JsonValue* const timeout = method.Find("timeout")) {
        edits.Replace(*timeout, never);
      }
    }
  }
  return edits.Apply(json);
}

// gRPC shows attempts to the factories behind ours, and where some before it
// made no interceptor for a call it counts those behind wrongly.
class OncePerCall final
    : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  OncePerCall(
      std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>
          factory,
      const internal::ChannelState* ours)
      : factory_(std::move(factory)), ours_(ours) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo* info) override {
    if (internal::CreatingAttempt::IsActiveFor(ours_)) return nullptr;
    return factory_->CreateClientInterceptor(info);
  }

 private:
  const std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>
      factory_;
  const internal::ChannelState* const ours_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> CreateChannel(
    const std::string& target,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    InterceptorOptions options, grpc::ChannelArguments arguments,
    std::vector<
        std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
        before_ours) {
  if (options.service_config_json.empty()) {
    options.service_config_json = ServiceConfigOf(arguments);
  }
  const std::string json = options.service_config_json;
  options.core_retries_off = true;
  auto factory = InterceptorFactory::Create(std::move(options));
  if (!factory.ok()) return factory.status();
  if (!json.empty()) {
    // Parsed once more than needed; a channel is not made often.
    auto config = ParseServiceConfig(json);
    if (!config.ok()) return config.status();
    // Of the keys that are not ours core is the judge; if it refuses the config
    // later, with the channel, every call fails.
    const std::string for_core = WithoutTimeouts((*config)->core_json());
    const std::string objection =
        grpc::experimental::ValidateServiceConfigJSON(for_core);
    if (!objection.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("gRPC refuses the service config: ", objection));
    }
    arguments.SetServiceConfigJSON(for_core);
  }
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  before_ours.erase(
      std::remove(before_ours.begin(), before_ours.end(), nullptr),
      before_ours.end());
  for (auto& before : before_ours) {
    before =
        std::make_unique<OncePerCall>(std::move(before), &(*factory)->state());
  }
  before_ours.push_back(*std::move(factory));
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      target, credentials, arguments, std::move(before_ours));
}

}  // namespace retry_guard
