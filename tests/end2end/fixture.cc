#include "tests/end2end/fixture.h"

#include <grpcpp/create_channel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace retry_guard::end2end {
namespace {

// The test itself is wrong; nothing after it would mean anything.
[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

}  // namespace

std::string Policy::Json() const {
  std::string guard = guard_;
  if (!absl::StrContains(guard, "\"jitter\"")) {
    absl::StrAppend(&guard, ", \"jitter\": \"NONE\"");
  }
  std::string method = R"("name": [{}])";
  if (attempts_ > 0) {
    // gRPC's own range is narrower than ours.
    const int for_grpc = std::clamp(attempts_, 2, 5);
    if (attempts_ != for_grpc) {
      absl::StrAppend(&guard, ", \"maxAttempts\": ", attempts_);
    }
    absl::StrAppend(&method, ", \"retryPolicy\": {\"maxAttempts\": ", for_grpc,
                    ", \"initialBackoff\": \"", backoff_,
                    "\", \"maxBackoff\": \"", backoff_,
                    "\", \"backoffMultiplier\": 1",
                    ", \"retryableStatusCodes\": [", codes_, "]", retry_, "}");
  }
  absl::StrAppend(&method, ", \"retryGuard\": {", guard.substr(2), "}",
                  method_);
  std::string json = absl::StrCat("{\"methodConfig\": [{", method, "}]", top_);
  if (!channel_.empty()) {
    absl::StrAppend(&json, ", \"retryGuard\": {", channel_.substr(2), "}");
  }
  return absl::StrCat(json, "}");
}

InterceptorOptions EndToEnd::Options(const std::string& service_config) {
  if (options_.guard == nullptr) options_.guard = Guard::Create();
  if (!options_.random_seed.has_value()) options_.random_seed = 1;
  InterceptorOptions options = options_;
  options.service_config_json = service_config;
  options.observers.insert(options.observers.begin(), seen_);
  return options;
}

std::string EndToEnd::Target() const {
  return target_.empty() ? server_.address() : target_;
}

void EndToEnd::MakeChannel(const std::string& service_config,
                           grpc::ChannelArguments arguments) {
  auto channel = CreateChannel(Target(), credentials_, Options(service_config),
                               std::move(arguments), std::move(before_ours_));
  if (!channel.ok()) Die(channel.status());
  channel_ = *std::move(channel);
}

void EndToEnd::MakeChannelByHand(const std::string& service_config,
                                 Factories after_ours,
                                 grpc::ChannelArguments arguments) {
  InterceptorOptions options = Options(service_config);
  options.core_retries_off = true;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  auto ours = InterceptorFactory::Create(std::move(options));
  if (!ours.ok()) Die(ours.status());
  factory_ = ours->get();
  Factories all = std::move(before_ours_);
  all.push_back(*std::move(ours));
  for (auto& factory : after_ours) all.push_back(std::move(factory));
  channel_ = grpc::experimental::CreateCustomChannelWithInterceptors(
      Target(), credentials_, arguments, std::move(all));
}

std::shared_ptr<grpc::Channel> EndToEnd::BareChannel(
    const grpc::ChannelArguments& arguments) const {
  return grpc::CreateCustomChannel(Target(), credentials_, arguments);
}

std::shared_ptr<testing::ManualClock> EndToEnd::UseManualClock() {
  auto clock = std::make_shared<testing::ManualClock>();
  options_.clock = clock;
  return clock;
}

}  // namespace retry_guard::end2end
