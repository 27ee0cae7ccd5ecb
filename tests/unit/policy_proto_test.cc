// policy.proto is documentation that must not rot: its keys are the parser's
// keys, its enums the parser's names, and protobuf's own JSON parser takes a
// retryGuard object that ours takes.

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "retry_guard/config/known_keys.h"
#include "retry_guard/config/service_config.h"
#include "retry_guard/policy.pb.h"

namespace retry_guard {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::EnumDescriptor;
using ::google::protobuf::util::JsonStringToMessage;

std::set<std::string> KeysOf(const Descriptor* message) {
  std::set<std::string> keys;
  for (int i = 0; i < message->field_count(); ++i) {
    keys.insert(std::string(message->field(i)->json_name()));
  }
  return keys;
}

std::set<std::string> Known(absl::Span<const absl::string_view> keys) {
  std::set<std::string> known;
  for (absl::string_view key : keys) known.emplace(key);
  return known;
}

TEST(PolicyProtoTest, ItsKeysAreTheParsers) {
  EXPECT_EQ(KeysOf(MethodRetryGuard::descriptor()),
            Known(known_keys::kMethodGuard));
  EXPECT_EQ(KeysOf(ChannelRetryGuard::descriptor()),
            Known(known_keys::kChannelGuard));
  EXPECT_EQ(KeysOf(ChannelRetryGuard::Budget::descriptor()),
            Known(known_keys::kBudget));
  EXPECT_EQ(KeysOf(ChannelRetryGuard::Breaker::descriptor()),
            Known(known_keys::kBreaker));
}

std::string MethodConfig(const std::string& guard) {
  return absl::StrCat(R"({"methodConfig": [{"name": [{}], "retryGuard": )",
                      guard, "}]}");
}

// Every name of the enum, and whether the parser takes it for `key`.
void ExpectSameNames(const EnumDescriptor* values, const std::string& key) {
  for (int i = 0; i < values->value_count(); ++i) {
    const std::string name(values->value(i)->name());
    const bool absent =
        absl::string_view(name).find("UNSPECIFIED") != absl::string_view::npos;
    EXPECT_EQ(ParseServiceConfig(
                  MethodConfig(absl::StrCat("{\"", key, "\": \"", name, "\"}")))
                  .ok(),
              !absent)
        << key << " " << name;
  }
  // And no more than those: the parser lists its own in the error.
  const auto refused =
      ParseServiceConfig(MethodConfig(absl::StrCat("{\"", key, "\": \"?\"}")));
  for (absl::string_view rest = refused.status().message();;) {
    const size_t begin = rest.find('"');
    if (begin == rest.npos) break;
    rest.remove_prefix(begin + 1);
    const std::string name(rest.substr(0, rest.find('"')));
    rest.remove_prefix(name.size() + 1);
    if (name == "?") continue;
    EXPECT_NE(values->FindValueByName(name), nullptr) << key << " " << name;
  }
}

TEST(PolicyProtoTest, ItsEnumsAreTheParsers) {
  ExpectSameNames(MethodRetryGuard::Jitter_descriptor(), "jitter");
  ExpectSameNames(MethodRetryGuard::Idempotency_descriptor(), "idempotency");
  ExpectSameNames(MethodRetryGuard::Layer_descriptor(), "layer");
  ExpectSameNames(MethodRetryGuard::BreakerScope_descriptor(), "breaker");
}

TEST(PolicyProtoTest, ItsStatusCodesAreGrpcs) {
  const EnumDescriptor* codes =
      ChannelRetryGuard::Breaker::StatusCode_descriptor();
  ASSERT_EQ(codes->value_count(), 17);
  for (int code = 0; code <= 16; ++code) {
    EXPECT_EQ(codes->FindValueByNumber(code)->name(),
              std::string(StatusCodeName(static_cast<absl::StatusCode>(code))));
  }
}

TEST(PolicyProtoTest, ProtobufReadsAMethodsRetryGuard) {
  const std::string json = R"({
      "maxAttempts": 7, "jitter": "EQUAL", "perAttemptTimeout": "1.5s",
      "minAttemptTime": "0.01s", "idempotency": "NON_IDEMPOTENT",
      "idempotencyKey": true, "layer": "HERE", "breaker": "OWN",
      "maxPushback": "30s", "pushbackJitter": 0.5, "bufferLimitBytes": 1024})";
  const auto config = ParseServiceConfig(MethodConfig(json));
  ASSERT_TRUE(config.ok()) << config.status();
  const MethodPolicy& policy = (*config)->ForMethod("/S/M");

  MethodRetryGuard message;
  ASSERT_TRUE(JsonStringToMessage(json, &message).ok());
  EXPECT_EQ(message.max_attempts(), policy.max_attempts);
  EXPECT_EQ(message.jitter(), MethodRetryGuard::EQUAL);
  EXPECT_EQ(message.per_attempt_timeout().nanos(), 500000000);
  EXPECT_EQ(message.idempotency(), MethodRetryGuard::NON_IDEMPOTENT);
  EXPECT_EQ(message.layer(), MethodRetryGuard::HERE);
  EXPECT_EQ(message.breaker(), MethodRetryGuard::OWN);
  EXPECT_EQ(message.pushback_jitter(), policy.pushback.jitter);
  EXPECT_EQ(message.buffer_limit_bytes(), policy.buffer_limit_bytes);
}

TEST(PolicyProtoTest, ProtobufReadsTheChannelsRetryGuard) {
  const std::string json = R"({
      "layerName": "checkout",
      "budget": {"ratio": 0.2, "minRetries": 5, "window": "10s",
                 "maxRetries": 100, "maxRetriesWindow": "60s"},
      "breaker": {"failureRate": 0.5, "minRequests": 20, "window": "3s",
                  "consecutiveFailures": 5, "openFor": "1s",
                  "maxOpenFor": "5s", "probes": 2,
                  "failureStatusCodes": ["UNAVAILABLE", 13]}})";
  const auto config =
      ParseServiceConfig(absl::StrCat("{\"retryGuard\": ", json, "}"));
  ASSERT_TRUE(config.ok()) << config.status();

  ChannelRetryGuard message;
  ASSERT_TRUE(JsonStringToMessage(json, &message).ok());
  EXPECT_EQ(message.layer_name(), (*config)->layer_name());
  EXPECT_EQ(message.budget().ratio(), (*config)->guard().budget.ratio);
  EXPECT_EQ(message.breaker().probes(), (*config)->guard().breaker.probes);
  EXPECT_THAT(message.breaker().failure_status_codes(),
              ::testing::ElementsAre(ChannelRetryGuard::Breaker::UNAVAILABLE,
                                     ChannelRetryGuard::Breaker::INTERNAL));
}

}  // namespace
}  // namespace retry_guard
