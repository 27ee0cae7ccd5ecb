// What a good service config means. The bad ones are in
// service_config_errors_test.cc.

#include "retry_guard/config/service_config.h"

#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace retry_guard {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::shared_ptr<const ServiceConfig> MustParse(const std::string& json) {
  auto config = ParseServiceConfig(json);
  EXPECT_TRUE(config.ok()) << json << "\n" << config.status();
  return config.ok() ? *config : ServiceConfig::Default();
}

// A config for everything, with these members.
std::shared_ptr<const ServiceConfig> ForAll(const std::string& members) {
  return MustParse(R"({"methodConfig": [{"name": [{}], )" + members + "}]}");
}

const MethodPolicy& Policy(const std::shared_ptr<const ServiceConfig>& config) {
  return config->ForMethod("/pkg.S/M");
}

TEST(ServiceConfigTest, WithoutConfigEverythingIsAtItsDefault) {
  for (const char* json : {"", "{}", R"({"methodConfig": []})"}) {
    const auto config = MustParse(json);
    EXPECT_EQ(config->ForMethod("/pkg.S/M"), MethodPolicy());
    EXPECT_EQ(config->ForMethod(""), MethodPolicy());
    EXPECT_EQ(config->guard(), GuardPolicy());
    EXPECT_EQ(config->layer_name(), "");
    EXPECT_THAT(config->warnings(), IsEmpty());
    EXPECT_THAT(config->names(), IsEmpty());
  }
  EXPECT_EQ(ServiceConfig::Default()->core_json(), "{}");
}

TEST(ServiceConfigTest, TheStandardPartIsRead) {
  const auto config = ForAll(R"(
      "timeout": "2s",
      "waitForReady": true,
      "retryPolicy": {
        "maxAttempts": 4,
        "initialBackoff": "0.025s",
        "maxBackoff": "0.25s",
        "backoffMultiplier": 1.6,
        "retryableStatusCodes": ["UNAVAILABLE", "ABORTED"],
        "perAttemptRecvTimeout": "0.5s"
      })");
  MethodPolicy want;
  want.has_retry_policy = true;
  want.max_attempts = 4;
  want.backoff.initial = absl::Milliseconds(25);
  want.backoff.max = absl::Milliseconds(250);
  want.backoff.multiplier = 1.6;
  want.retryable_codes = {StatusCode::kUnavailable, StatusCode::kAborted};
  want.timeout = absl::Seconds(2);
  want.wait_for_ready = true;
  want.per_attempt_timeout = absl::Milliseconds(500);
  EXPECT_EQ(Policy(config), want);
  EXPECT_THAT(config->warnings(), IsEmpty());
}

TEST(ServiceConfigTest, OurMethodPartIsRead) {
  const auto config = ForAll(R"(
      "retryGuard": {
        "maxAttempts": 20,
        "jitter": "DECORRELATED",
        "perAttemptTimeout": "1s",
        "minAttemptTime": "0.01s",
        "idempotency": "NON_IDEMPOTENT",
        "idempotencyKey": true,
        "layer": "HERE",
        "breaker": "OWN",
        "maxPushback": "5s",
        "pushbackJitter": 0,
        "bufferLimitBytes": 67108864
      })");
  MethodPolicy want;
  want.max_attempts = 20;
  want.backoff.jitter = Jitter::kDecorrelated;
  want.per_attempt_timeout = absl::Seconds(1);
  want.min_attempt_time = absl::Milliseconds(10);
  want.idempotency = Idempotency::kNonIdempotent;
  want.idempotency_key = true;
  want.layer = Layer::kHere;
  want.own_breaker = true;
  want.pushback.max_wait = absl::Seconds(5);
  want.pushback.jitter = 0;
  want.buffer_limit_bytes = 64 * 1024 * 1024;
  EXPECT_EQ(Policy(config), want);
}

TEST(ServiceConfigTest, EveryEnumNameIsRead) {
  const auto jitter = [](const std::string& name) {
    return Policy(ForAll(R"("retryGuard": {"jitter": ")" + name + R"("})"))
        .backoff.jitter;
  };
  EXPECT_EQ(jitter("FULL"), Jitter::kFull);
  EXPECT_EQ(jitter("EQUAL"), Jitter::kEqual);
  EXPECT_EQ(jitter("DECORRELATED"), Jitter::kDecorrelated);
  EXPECT_EQ(jitter("PROPORTIONAL"), Jitter::kProportional);
  EXPECT_EQ(jitter("NONE"), Jitter::kNone);
  const auto layer = [](const std::string& name) {
    return Policy(ForAll(R"("retryGuard": {"layer": ")" + name + R"("})"))
        .layer;
  };
  EXPECT_EQ(layer("OUTERMOST"), Layer::kOutermost);
  EXPECT_EQ(layer("HERE"), Layer::kHere);
  EXPECT_EQ(layer("NEVER"), Layer::kNever);
  EXPECT_EQ(Policy(ForAll(R"("retryGuard": {"idempotency": "IDEMPOTENT"})"))
                .idempotency,
            Idempotency::kIdempotent);
}

// A channel that says nothing of its Guard leaves it to others.
TEST(ServiceConfigTest, DefaultsThatAreWrittenOutAreNotNothing) {
  const auto sets_guard = [](const char* json) {
    const auto config = MustParse(json);
    EXPECT_EQ(config->guard().budget, BudgetPolicy());
    EXPECT_EQ(config->guard().breaker, BreakerPolicy());
    return config->sets_guard();
  };
  EXPECT_FALSE(sets_guard("{}"));
  EXPECT_FALSE(sets_guard(R"({"retryGuard": {"layerName": "x"}})"));
  EXPECT_TRUE(sets_guard(R"({"retryGuard": {"budget": {}}})"));
  EXPECT_TRUE(sets_guard(R"({"retryGuard": {"breaker": {"probes": 1}}})"));
  EXPECT_TRUE(
      sets_guard(R"({"retryThrottling": {"maxTokens": 9, "tokenRatio": 1}})"));
}

TEST(ServiceConfigTest, TheChannelPartIsRead) {
  const auto config = MustParse(R"({
      "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1},
      "retryGuard": {
        "layerName": "checkout service",
        "budget": {"ratio": 0.2, "minRetries": 0, "window": "30s",
                   "maxRetries": 100, "maxRetriesWindow": "61s"},
        "breaker": {"failureRate": 0.25, "minRequests": 5, "window": "1s",
                    "consecutiveFailures": 7, "openFor": "0.5s",
                    "maxOpenFor": "2s", "probes": 3,
                    "failureStatusCodes": ["internal", 14]}}})");
  GuardPolicy want;
  want.throttle = ThrottlePolicy{10000, 100};
  want.budget.ratio = 0.2;
  want.budget.min_retries = 0;
  want.budget.window = absl::Seconds(30);
  want.budget.max_retries = 100;
  want.budget.max_retries_window = absl::Seconds(61);
  want.breaker.failure_rate = 0.25;
  want.breaker.min_requests = 5;
  want.breaker.window = absl::Seconds(1);
  want.breaker.consecutive_failures = 7;
  want.breaker.open_for = absl::Milliseconds(500);
  want.breaker.max_open_for = absl::Seconds(2);
  want.breaker.probes = 3;
  want.breaker.failure_codes = {StatusCode::kInternal,
                                StatusCode::kUnavailable};
  EXPECT_EQ(config->guard(), want);
  EXPECT_EQ(config->layer_name(), "checkout service");
}

TEST(ServiceConfigTest, TheMostSpecificNameWinsWhateverTheOrder) {
  const std::string method =
      R"({"name": [{"service": "pkg.S", "method": "M"}], "timeout": "1s"})";
  const std::string service =
      R"({"name": [{"service": "pkg.S"}], "timeout": "2s"})";
  const std::string everything = R"({"name": [{}], "timeout": "3s"})";
  for (const std::string& list : {method + "," + service + "," + everything,
                                  everything + "," + service + "," + method,
                                  service + "," + method + "," + everything}) {
    const auto config = MustParse(R"({"methodConfig": [)" + list + "]}");
    EXPECT_EQ(config->ForMethod("/pkg.S/M").timeout, absl::Seconds(1));
    EXPECT_EQ(config->ForMethod("/pkg.S/Other").timeout, absl::Seconds(2));
    EXPECT_EQ(config->ForMethod("/pkg.S2/M").timeout, absl::Seconds(3));
    EXPECT_EQ(config->ForMethod("/S/M").timeout, absl::Seconds(3));
    EXPECT_EQ(config->ForMethod("no slash").timeout, absl::Seconds(3));
    EXPECT_THAT(config->names(), ElementsAre("/pkg.S/", "/pkg.S/M", ""));
  }
}

TEST(ServiceConfigTest, OneEntryMayHaveManyNames) {
  const auto config = MustParse(R"({"methodConfig": [{
      "name": [{"service": "a.A"}, {"service": "b.B", "method": "M"}],
      "timeout": "1s"}]})");
  EXPECT_EQ(config->ForMethod("/a.A/X").timeout, absl::Seconds(1));
  EXPECT_EQ(config->ForMethod("/b.B/M").timeout, absl::Seconds(1));
  EXPECT_EQ(config->ForMethod("/b.B/X").timeout, std::nullopt);
}

TEST(ServiceConfigTest, NothingIsInheritedFromALessSpecificEntry) {
  const auto config = MustParse(R"({"methodConfig": [
      {"name": [{}], "timeout": "3s"},
      {"name": [{"service": "pkg.S"}], "waitForReady": false}]})");
  EXPECT_EQ(config->ForMethod("/pkg.S/M").timeout, std::nullopt);
  EXPECT_EQ(config->ForMethod("/pkg.S/M").wait_for_ready, false);
}

std::string RetryPolicy(const std::string& attempts, const std::string& more) {
  return R"("retryPolicy": {"maxAttempts": )" + attempts +
         R"(, "initialBackoff": "1s", "maxBackoff": "2s",
             "backoffMultiplier": 2)" +
         more + "}";
}
constexpr char kCodes[] = R"(, "retryableStatusCodes": ["UNAVAILABLE"])";

TEST(ServiceConfigTest, MoreThanFiveAttemptsAreTakenAsFiveWithAWarning) {
  const auto config = ForAll(RetryPolicy("7", kCodes));
  EXPECT_EQ(Policy(config).max_attempts, 5);
  EXPECT_THAT(config->warnings(),
              ElementsAre("methodConfig[0].retryPolicy.maxAttempts: 7 is taken "
                          "as 5, as in gRPC; retryGuard.maxAttempts goes up to "
                          "20"));
}

TEST(ServiceConfigTest, OurMaxAttemptsLiftsTheLimitInSilence) {
  const auto config = ForAll(RetryPolicy("7", kCodes) +
                             R"(, "retryGuard": {"maxAttempts": 7})");
  EXPECT_EQ(Policy(config).max_attempts, 7);
  EXPECT_THAT(config->warnings(), IsEmpty());
  EXPECT_EQ(Policy(ForAll(RetryPolicy("4", kCodes) +
                          R"(, "retryGuard": {"maxAttempts": 1})"))
                .max_attempts,
            1);
}

TEST(ServiceConfigTest, OurPerAttemptTimeoutWins) {
  const std::string standard = RetryPolicy(
      "4", std::string(kCodes) + R"(, "perAttemptRecvTimeout": "1s")");
  EXPECT_EQ(Policy(ForAll(standard)).per_attempt_timeout, absl::Seconds(1));
  EXPECT_EQ(Policy(ForAll(R"("retryGuard": {"perAttemptTimeout": "3s"}, )" +
                          standard))
                .per_attempt_timeout,
            absl::Seconds(3));
}

TEST(ServiceConfigTest, CodesAreNamesInAnyCaseOrNumbersAndMayRepeat) {
  const auto config = ForAll(RetryPolicy(
      "4",
      R"(, "retryableStatusCodes": ["unavailable", 14, 10.0, "Internal", 1])"));
  const StatusCodeSet want = {StatusCode::kUnavailable, StatusCode::kAborted,
                              StatusCode::kInternal, StatusCode::kCancelled};
  EXPECT_EQ(Policy(config).retryable_codes, want);
}

TEST(ServiceConfigTest, WithATimeoutPerAttemptTheCodesMayBeAbsent) {
  const auto config =
      ForAll(RetryPolicy("4", R"(, "perAttemptRecvTimeout": "1s")"));
  EXPECT_TRUE(Policy(config).retryable_codes.empty());
  EXPECT_EQ(Policy(config).per_attempt_timeout, absl::Seconds(1));
  EXPECT_EQ(Policy(MustParse(config->core_json())), Policy(config));
}

TEST(ServiceConfigTest, NumbersMayBeStringsAndIntegersMayHaveDecimals) {
  const auto config = MustParse(R"({
      "methodConfig": [{"name": [{}],
        "retryGuard": {"maxAttempts": "3", "pushbackJitter": "0.5",
                       "bufferLimitBytes": 1e3}}],
      "retryThrottling": {"maxTokens": 20.0, "tokenRatio": "5e-1"}})");
  EXPECT_EQ(Policy(config).max_attempts, 3);
  EXPECT_EQ(Policy(config).pushback.jitter, 0.5);
  EXPECT_EQ(Policy(config).buffer_limit_bytes, 1000);
  EXPECT_EQ(config->guard().throttle, (ThrottlePolicy{20000, 500}));
}

TEST(ServiceConfigTest, TokenRatioKeepsThreeDecimalsCutNotRounded) {
  const auto milli = [](const std::string& ratio) {
    return MustParse(R"({"retryThrottling": {"maxTokens": 10, "tokenRatio": )" +
                     ratio + "}}")
        ->guard()
        .throttle->milli_token_ratio;
  };
  EXPECT_EQ(milli("0.5466"), 546);
  EXPECT_EQ(milli("0.546"), 546);
  EXPECT_EQ(milli("0.0019"), 1);
  EXPECT_EQ(milli("1"), 1000);
  // As good as any: no bucket holds more than 1000 tokens.
  EXPECT_EQ(milli("1e300"), 1000000);
}

TEST(ServiceConfigTest, BackoffBelowAMillisecondIsTakenAsOneWithAWarning) {
  const auto config = ForAll(R"("retryPolicy": {
      "maxAttempts": 2, "initialBackoff": "0.0001s", "maxBackoff": "0.0002s",
      "backoffMultiplier": 1, "retryableStatusCodes": [14]})");
  EXPECT_EQ(Policy(config).backoff.initial, absl::Milliseconds(1));
  EXPECT_EQ(Policy(config).backoff.max, absl::Milliseconds(1));
  EXPECT_THAT(
      config->warnings(),
      ElementsAre("methodConfig[0].retryPolicy.initialBackoff: \"0.0001s\" is "
                  "taken as \"0.001s\": gRPC counts in milliseconds",
                  "methodConfig[0].retryPolicy.maxBackoff: \"0.0002s\" is "
                  "taken as \"0.001s\": gRPC counts in milliseconds"));
}

TEST(ServiceConfigTest, ALongOpenForTakesMaxOpenForWithIt) {
  const auto breaker = [](const std::string& members) {
    return MustParse(R"({"retryGuard": {"breaker": {)" + members + "}}}")
        ->guard()
        .breaker;
  };
  EXPECT_EQ(breaker(R"("openFor": "30s")").max_open_for, absl::Seconds(30));
  EXPECT_EQ(breaker(R"("openFor": "2s")").max_open_for, absl::Seconds(5));
  EXPECT_EQ(breaker(R"("maxOpenFor": "1s")").open_for, absl::Seconds(1));
}

TEST(ServiceConfigTest, WhatIsOddButAcceptedIsTold) {
  const auto warnings = [](const std::string& json) {
    return MustParse(json)->warnings();
  };
  EXPECT_THAT(warnings(R"({"methodConfig": [{"timeout": "1s"}]})"),
              ElementsAre("methodConfig[0]: has no name, so that it holds for "
                          "no method"));
  EXPECT_THAT(warnings(R"({"methodConfig": [{"name": []}]})"),
              ElementsAre("methodConfig[0]: has no name, so that it holds for "
                          "no method"));
  EXPECT_THAT(
      warnings(R"({"methodConfig": [{"name": [{"service": "/pkg.S"}]}]})"),
      ElementsAre("methodConfig[0].name[0].service: \"/pkg.S\" has a slash; "
                  "write \"package.Service\", and the method under a key of "
                  "its own"));
  EXPECT_THAT(warnings(R"({"methodConfig": [{"name": [{}],
                           "hedgingPolicy": {"maxAttempts": 2}}]})"),
              ElementsAre("methodConfig[0].hedgingPolicy: hedging is not done "
                          "here; ignored"));
}

TEST(ServiceConfigTest, ASlipInAKeyOutsideOurPartsIsTold) {
  EXPECT_THAT(
      MustParse(R"({"methodConfigs": [], "retryThrotling": {},
                    "methodConfig": [{"name": [{"servce": "S"}],
                                      "retry_policy": {}, "retrygaurd": {}}]})")
          ->warnings(),
      ElementsAre(
          "methodConfigs: unknown key, ignored; did you mean \"methodConfig\"?",
          "retryThrotling: unknown key, ignored; did you mean "
          "\"retryThrottling\"?",
          "methodConfig[0].retry_policy: unknown key, ignored; did you mean "
          "\"retryPolicy\"?",
          "methodConfig[0].retrygaurd: unknown key, ignored; did you mean "
          "\"retryGuard\"?",
          "methodConfig[0].name[0].servce: unknown key, ignored; did you mean "
          "\"service\"?"));
}

TEST(ServiceConfigTest, OtherKeysAreGrpcsBusiness) {
  const std::string json = R"({
      "loadBalancingConfig": [{"round_robin": {}}],
      "healthCheckConfig": {"serviceName": "h"},
      "x": {"retryPolicy": 5},
      "methodConfig": [{"name": [{"service": "S", "x": null}],
                        "maxRequestMessageBytes": 100, "y": [1.50, 1e+5]}]})";
  const auto config = MustParse(json);
  EXPECT_THAT(config->warnings(), IsEmpty());
  EXPECT_EQ(config->core_json(), json);
}

TEST(CoreJsonTest, WhatCoreWouldRefuseOrMisreadIsRespelt) {
  EXPECT_EQ(
      MustParse(R"({"retryThrottling": {"maxTokens": 10.0, "tokenRatio": 1}})")
          ->core_json(),
      R"({"retryThrottling": {"maxTokens": 10, "tokenRatio": 1.0}})");
  EXPECT_EQ(
      MustParse(R"({"methodConfig":[{"name":[{}],"timeout":".5s",)"
                R"("retryPolicy":{"maxAttempts":"3","initialBackoff":"1.s",)"
                R"("maxBackoff":"00002s","backoffMultiplier":"1.60",)"
                R"("retryableStatusCodes":[14,"aborted","INTERNAL"]}}]})")
          ->core_json(),
      R"({"methodConfig":[{"name":[{}],"timeout":"0.5s",)"
      R"("retryPolicy":{"maxAttempts":3,"initialBackoff":"1s",)"
      R"("maxBackoff":"2s","backoffMultiplier":1.60,)"
      R"("retryableStatusCodes":["UNAVAILABLE","ABORTED","INTERNAL"]}}]})");
}

TEST(CoreJsonTest, AZeroWithAnExponentIsRespeltEverywhere) {
  EXPECT_EQ(MustParse(R"({"x": [0e5, 0E-5, -0e5, 10e5, "0e5"],
                          "retryGuard": {"budget": {"ratio": 0e1}}})")
                ->core_json(),
            R"({"x": [0.0e5, 0.0E-5, -0e5, 10e5, "0e5"],
                          "retryGuard": {"budget": {"ratio": 0.0e1}}})");
}

TEST(CoreJsonTest, AnAbsentListIsSpeltAsOneThatNeverMatches) {
  EXPECT_EQ(
      MustParse(R"({"methodConfig": [{"name": [{}], "retryPolicy": {
          "maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s",
          "backoffMultiplier": 1, "perAttemptRecvTimeout": "1s"}}]})")
          ->core_json(),
      R"({"methodConfig": [{"name": [{}], "retryPolicy": {"retryableStatusCodes": ["OK"], 
          "maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s",
          "backoffMultiplier": 1, "perAttemptRecvTimeout": "1s"}}]})");
}

TEST(CoreJsonTest, EverythingElseIsUntouchedToTheByte) {
  const std::string json =
      " {\"x\" :\t[1.50, -0, 1E5, \"\\u0041\\/\", {}],\n"
      "\"retryGuard\": {\"budget\": {\"ratio\": 1e-1}}, \"methodConfig\" : "
      "[ {\"name\":[{}], \"retryGuard\":{\"maxAttempts\":3.0}} ] }\r\n";
  EXPECT_EQ(MustParse(json)->core_json(), json);
}

}  // namespace
}  // namespace retry_guard
