#include "retry_guard/interceptor.h"

#include <string>
#include <utility>

#include "retry_guard/call/attempt.h"
#include "retry_guard/call/call_interceptor.h"
#include "retry_guard/call/channel_state.h"
#include "retry_guard/policy/marker.h"

namespace retry_guard {

InterceptorFactory::InterceptorFactory(
    std::shared_ptr<internal::ChannelState> state)
    : state_(std::move(state)) {}

InterceptorFactory::~InterceptorFactory() = default;

absl::StatusOr<std::unique_ptr<InterceptorFactory>> InterceptorFactory::Create(
    InterceptorOptions options) {
  // It travels as metadata, and gRPC ends the process over a value that cannot.
  if (PrintableOwner(options.layer_name) != options.layer_name) {
    return absl::InvalidArgumentError(
        "InterceptorOptions::layer_name: write at most 128 printable ASCII "
        "characters");
  }
  const std::string json = std::move(options.service_config_json);
  auto state = std::make_shared<internal::ChannelState>(std::move(options));
  if (!json.empty()) {
    absl::Status status = state->SetExplicitConfig(json);
    if (!status.ok()) return status;
  }
  return std::unique_ptr<InterceptorFactory>(
      new InterceptorFactory(std::move(state)));
}

std::shared_ptr<Guard> InterceptorFactory::guard() const {
  return state_->shared_guard();
}

absl::Status InterceptorFactory::UpdateServiceConfig(std::string_view json) {
  return state_->SetExplicitConfig(json);
}

grpc::experimental::Interceptor* InterceptorFactory::CreateClientInterceptor(
    grpc::experimental::ClientRpcInfo* info) {
  if (internal::CreatingAttempt::IsActiveFor(state_.get())) return nullptr;
  return new internal::CallInterceptor(state_, info);
}

}  // namespace retry_guard
