#include "tests/end2end/fixture.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace retry_guard::end2end {

std::string Policy(int attempts, const std::string& more,
                   const std::string& top) {
  std::string policy = absl::StrCat(
      R"({"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": )",
      attempts,
      R"(, "initialBackoff": "0.001s", "maxBackoff": "1s",
          "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]})");
  if (!more.empty()) absl::StrAppend(&policy, ", ", more);
  absl::StrAppend(&policy, "}]");
  if (!top.empty()) absl::StrAppend(&policy, ", ", top);
  return absl::StrCat(policy, "}");
}

void EndToEndTest::MakeChannel(const std::string& service_config,
                               grpc::ChannelArguments arguments) {
  options_.service_config_json = service_config;
  options_.observers.push_back(seen_);
  if (options_.guard == nullptr) options_.guard = Guard::Create();
  if (!options_.random_seed.has_value()) options_.random_seed = 1;
  auto channel =
      CreateChannel(server_.address(), grpc::InsecureChannelCredentials(),
                    options_, std::move(arguments));
  ASSERT_TRUE(channel.ok()) << channel.status();
  channel_ = *std::move(channel);
}

std::shared_ptr<testing::ManualClock> EndToEndTest::UseManualClock() {
  auto clock = std::make_shared<testing::ManualClock>();
  options_.clock = clock;
  return clock;
}

}  // namespace retry_guard::end2end
