#include "downstream.h"

#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "grpcpp/grpcpp.h"
#include "retry_guard/channel.h"

namespace chain {
namespace {

namespace pb = ::retry_guard::examples;

// gRPC's own keys, which retry_guard reads too.
std::string MethodConfig() {
  return absl::StrFormat(
      R"json("methodConfig": [{
        "name": [{"service": "retry_guard.examples.Layer"}],
        "retryPolicy": {
          "maxAttempts": %d,
          "initialBackoff": "%.3fs",
          "maxBackoff": "%.3fs",
          "backoffMultiplier": 2,
          "retryableStatusCodes": ["UNAVAILABLE"]
        }
      }])json",
      kAttempts, absl::ToDoubleSeconds(kFirstBackoff),
      absl::ToDoubleSeconds(kLongestBackoff));
}

// What is left to stop a retry is the rule that one layer retries.
constexpr char kNoBudgetNoBreaker[] = R"json(, "retryGuard": {
  "budget": {"ratio": 1, "minRetries": 1000000},
  "breaker": {"failureRate": 0, "consecutiveFailures": 0}
})json";

std::shared_ptr<grpc::Channel> BuiltinRetriesChannel(
    const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(absl::StrCat("{", MethodConfig(), "}"));
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

std::shared_ptr<grpc::Channel> RetryGuardChannel(const std::string& address,
                                                 const std::string& layer_name,
                                                 const char* guard) {
  retry_guard::InterceptorOptions options;
  options.service_config_json = absl::StrCat("{", MethodConfig(), guard, "}");
  options.layer_name = layer_name;
  auto channel = retry_guard::CreateChannel(
      address, grpc::InsecureChannelCredentials(), std::move(options));
  if (!channel.ok()) throw std::runtime_error(channel.status().ToString());
  return *std::move(channel);
}

std::shared_ptr<grpc::Channel> MakeChannel(Mode mode,
                                           const std::string& layer_name,
                                           const std::string& address) {
  switch (mode) {
    case Mode::kNaive:
      return PlainChannel(address);
    case Mode::kGrpcBuiltin:
      return BuiltinRetriesChannel(address);
    case Mode::kRetryGuard:
      return RetryGuardChannel(address, layer_name, kNoBudgetNoBreaker);
    case Mode::kRetryGuardDefaults:
      return RetryGuardChannel(address, layer_name, "");
  }
  throw std::invalid_argument("no such mode");
}

}  // namespace

std::shared_ptr<grpc::Channel> PlainChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetMaxReceiveMessageSize(-1);  // a report may be long
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

Downstream::Downstream(Mode mode, const std::string& layer_name,
                       const std::string& address)
    : mode_(mode),
      channel_(MakeChannel(mode, layer_name, address)),
      stub_(pb::Layer::NewStub(channel_)) {
  // An attempt that finds no connection yet would not be counted below.
  if (!channel_->WaitForConnected(
          absl::ToChronoTime(absl::Now() + absl::Seconds(30)))) {
    throw std::runtime_error(absl::StrCat("cannot connect to ", address));
  }
}

grpc::Status Downstream::Call(absl::Duration remaining,
                              MakeContext make_context) const {
  pb::HandleRequest request;
  request.set_caller_remaining_us(absl::ToInt64Microseconds(remaining));
  // In the naive mode this is the loop; in the others the channel has one.
  const int attempts = mode_ == Mode::kNaive ? kAttempts : 1;
  for (int attempt = 1;; ++attempt) {
    const std::unique_ptr<grpc::ClientContext> context = make_context();
    pb::HandleReply reply;
    grpc::Status status = stub_->Handle(context.get(), request, &reply);
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE ||
        attempt == attempts) {
      return status;
    }
    absl::SleepFor(kFirstBackoff);
  }
}

}  // namespace chain
