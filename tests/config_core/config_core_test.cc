// Promises about every config there is, tried on many that are nearly right:
// - it is refused line by line, each with a place, or it is accepted;
// - what is accepted, gRPC core accepts too, as core_json;
// - core_json means the same to us, and is its own core_json.

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "config_mutator.h"
#include "gmock/gmock.h"
#include "grpc/grpc.h"
#include "grpcpp/support/validate_service_config.h"
#include "gtest/gtest.h"
#include "retry_guard/config/service_config.h"

namespace retry_guard {
namespace {

using testing::ConfigMutator;
using testing::SeedConfigs;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// "" when core takes it.
std::string CoreError(const std::string& json) {
  return grpc::experimental::ValidateServiceConfigJSON(json);
}

void ExpectSame(const ServiceConfig& a, const ServiceConfig& b) {
  EXPECT_EQ(a.names(), b.names());
  for (const std::string& name : a.names()) {
    EXPECT_TRUE(a.ForMethod(name) == b.ForMethod(name)) << name;
  }
  EXPECT_TRUE(a.guard() == b.guard());
  EXPECT_EQ(a.layer_name(), b.layer_name());
}

void ExpectTakenByCore(const ServiceConfig& config) {
  EXPECT_EQ(CoreError(config.core_json()), "") << config.core_json();
  const auto again = ParseServiceConfig(config.core_json());
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectSame(config, **again);
  EXPECT_EQ((*again)->core_json(), config.core_json());
}

// `path: what`, or `line 1, column 2: what`.
bool HasAPlace(absl::string_view line) {
  const size_t colon = line.find(": ");
  if (colon == line.npos || colon == 0 || colon + 2 == line.size()) {
    return false;
  }
  const absl::string_view place = line.substr(0, colon);
  return place == "service config" || absl::StartsWith(place, "line ") ||
         place.find(' ') == place.npos || absl::StrContains(place, "[\"");
}

TEST(ConfigCoreTest, CoreTakesTheSeeds) {
  for (const std::string& seed : SeedConfigs()) {
    const auto config = ParseServiceConfig(seed);
    ASSERT_TRUE(config.ok()) << seed << "\n" << config.status();
    ExpectTakenByCore(**config);
  }
}

TEST(ConfigCoreTest, CoreTakesTheDefault) {
  ExpectTakenByCore(*ServiceConfig::Default());
}

TEST(ConfigCoreTest, CoreTakesWhatSomeVersionsWouldRefuseOrMisread) {
  for (const char* json : {
           R"({"retryThrottling": {"maxTokens": 10.0, "tokenRatio": "5e-1"}})",
           R"({"retryThrottling": {"maxTokens": 10, "tokenRatio": 1e300}})",
           R"({"methodConfig": [{"name": [{}], "timeout": ".5s"}]})",
           R"({"x": [0e5, 0E+05], "retryGuard": {"budget": {"ratio": 0e0}}})",
           R"({"methodConfig": [{"name": [{}], "retryPolicy": {
               "maxAttempts": 2.0, "initialBackoff": "0.000000001s",
               "maxBackoff": "1.s", "backoffMultiplier": 1e-300,
               "retryableStatusCodes": ["unavailable", 10]}}]})",
           R"({"methodConfig": [{"name": [{}], "retryPolicy": {
               "maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s",
               "backoffMultiplier": 1, "perAttemptRecvTimeout": "1s"}}]})",
       }) {
    const auto config = ParseServiceConfig(json);
    ASSERT_TRUE(config.ok()) << json << "\n" << config.status();
    ExpectTakenByCore(**config);
  }
}

TEST(ConfigCoreTest, NearlyRightConfigsKeepEveryPromise) {
  const uint64_t seed = FromEnvironment("RETRY_GUARD_SEED", 1);
  const uint64_t mutations = FromEnvironment("RETRY_GUARD_MUTATIONS", 30000);
  ConfigMutator mutator(seed);
  uint64_t accepted = 0;
  for (uint64_t i = 0; i < mutations && !HasFailure(); ++i) {
    const std::string json = mutator.Next();
    SCOPED_TRACE(json);
    const auto config = ParseServiceConfig(json);
    if (config.ok()) {
      ++accepted;
      ExpectTakenByCore(**config);
      continue;
    }
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
    for (absl::string_view line :
         absl::StrSplit(config.status().message(), '\n')) {
      EXPECT_TRUE(HasAPlace(line)) << line;
    }
  }
  std::cout << mutations << " configs from seed " << seed << ": " << accepted
            << " accepted, " << mutations - accepted << " refused\n";
  // Or the promise about those would be empty.
  EXPECT_GT(accepted * 10, mutations);
  EXPECT_LT(accepted * 10, mutations * 9);
}

}  // namespace
}  // namespace retry_guard

int main(int argc, char** argv) {
  // Core tells on stderr of every config that it clamps.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  ::testing::InitGoogleTest(&argc, argv);
  grpc_init();  // Held, or every single check starts and stops all of gRPC.
  return RUN_ALL_TESTS();
}
