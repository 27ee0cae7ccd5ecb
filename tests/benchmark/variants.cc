#include "tests/benchmark/variants.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/client_interceptor.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "retry_guard/channel.h"

namespace retry_guard::benchmarks {
namespace {

using grpc::experimental::ClientInterceptorFactoryInterface;
using grpc::experimental::ClientRpcInfo;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

class OnlyProceeds final : public Interceptor {
 public:
  void Intercept(InterceptorBatchMethods* batch) override { batch->Proceed(); }
};

class OnlyProceedsFactory final : public ClientInterceptorFactoryInterface {
 public:
  Interceptor* CreateClientInterceptor(ClientRpcInfo* /*info*/) override {
    return new OnlyProceeds();
  }
};

// Ours reads the same, and has budget and breaker on by default. `more` goes
// into the methodConfig.
std::string ServiceConfig(const std::string& more = "") {
  return absl::StrCat(R"({
  "methodConfig": [{
    "name": [{"service": "retry_guard.testing.EchoService"}],
    "retryPolicy": {
      "maxAttempts": 3,
      "initialBackoff": "0.1s",
      "maxBackoff": "1s",
      "backoffMultiplier": 2,
      "retryableStatusCodes": ["UNAVAILABLE"]
    })",
                      more, R"(
  }],
  "retryThrottling": {"maxTokens": 100, "tokenRatio": 0.1}
})");
}

constexpr char kWithTimeout[] =
    R"(, "retryGuard": {"perAttemptTimeout": "10s"})";

constexpr char kHoldsCalls[] = R"({
  "methodConfig": [{
    "name": [{"service": "retry_guard.testing.EchoService"}],
    "retryPolicy": {
      "maxAttempts": 2,
      "initialBackoff": "1000s",
      "maxBackoff": "1000s",
      "backoffMultiplier": 1,
      "retryableStatusCodes": ["UNAVAILABLE"]
    },
    "retryGuard": {"jitter": "NONE"}
  }],
  "retryGuard": {
    "budget": {"ratio": 1, "minRetries": 100000},
    "breaker": {"failureRate": 0, "consecutiveFailures": 0}
  }
})";

std::string ConfigFor(Purpose purpose) {
  return purpose == Purpose::kIsFast ? ServiceConfig() : kHoldsCalls;
}

grpc::ChannelArguments OwnConnection() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

std::shared_ptr<grpc::Channel> MakeGuarded(const std::string& address,
                                           const std::string& config) {
  InterceptorOptions options;
  options.service_config_json = config;
  auto channel = CreateChannel(address, grpc::InsecureChannelCredentials(),
                               std::move(options), OwnConnection());
  if (!channel.ok()) {
    std::fprintf(stderr, "%s\n", channel.status().ToString().c_str());
    std::abort();
  }
  return *std::move(channel);
}

}  // namespace

const char* Name(Variant variant) {
  switch (variant) {
    case Variant::kBare:
      return "bare";
    case Variant::kInterceptor:
      return "interceptor";
    case Variant::kNative:
      return "native";
    case Variant::kLoop:
      return "loop";
    case Variant::kGuard:
      return "guard";
    case Variant::kGuardTimeout:
      return "guard_timeout";
  }
  return "";
}

std::shared_ptr<grpc::Channel> MakeChannel(Variant variant,
                                           const std::string& address,
                                           Purpose purpose) {
  const auto credentials = grpc::InsecureChannelCredentials();
  grpc::ChannelArguments arguments = OwnConnection();
  switch (variant) {
    case Variant::kGuard:
      return MakeGuarded(address, ConfigFor(purpose));
    case Variant::kGuardTimeout:
      return MakeGuarded(address, ServiceConfig(kWithTimeout));
    case Variant::kNative:
      arguments.SetServiceConfigJSON(ConfigFor(purpose));
      return grpc::CreateCustomChannel(address, credentials, arguments);
    case Variant::kInterceptor: {
      arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
      std::vector<std::unique_ptr<ClientInterceptorFactoryInterface>> factories;
      factories.push_back(std::make_unique<OnlyProceedsFactory>());
      return grpc::experimental::CreateCustomChannelWithInterceptors(
          address, credentials, arguments, std::move(factories));
    }
    case Variant::kBare:
    case Variant::kLoop:
      break;
  }
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

}  // namespace retry_guard::benchmarks
