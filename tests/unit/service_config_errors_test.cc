// What is wrong with a service config, word for word: whoever edits one reads
// these lines and nothing else.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "retry_guard/config/service_config.h"

namespace retry_guard {
namespace {

std::string ErrorsOf(const std::string& json) {
  const auto config = ParseServiceConfig(json);
  if (config.ok()) return "none";
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(config.status().message());
}

struct Member {
  std::string key;
  std::string json;  // "" leaves the key out
};

// An object of `members`, the one of the same key replaced by `changed`, or
// `changed` added.
std::string With(std::vector<Member> members, const Member& changed) {
  bool found = false;
  for (Member& member : members) {
    if (member.key != changed.key) continue;
    member.json = changed.json;
    found = true;
  }
  if (!found) members.push_back(changed);
  std::vector<std::string> parts;
  for (const Member& member : members) {
    if (member.json.empty()) continue;
    parts.push_back(absl::StrCat("\"", member.key, "\": ", member.json));
  }
  return absl::StrCat("{", absl::StrJoin(parts, ", "), "}");
}

std::string InMethodConfig(const std::string& key, const std::string& json) {
  return absl::StrCat(R"({"methodConfig": [{"name": [{"service": "S"}], ")",
                      key, "\": ", json, "}]}");
}

// One wrong member of an otherwise good object.
struct Case {
  std::string name;
  Member member;
  std::string want;  // after the object's path
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

const std::string kDuration =
    "is no duration; write seconds with an \"s\", such as \"0.1s\"";
const std::string kDurationRange =
    "is out of range; write more than \"0s\", at most \"315576000000s\"";
const std::string kCodes =
    "write a list of status codes, such as [\"UNAVAILABLE\"]";
const std::string kCode =
    "write a name such as \"UNAVAILABLE\" or a number from 1 to 16";

class RetryPolicyErrors : public ::testing::TestWithParam<Case> {};

TEST_P(RetryPolicyErrors, AreTold) {
  const std::string policy = With({{"maxAttempts", "4"},
                                   {"initialBackoff", "\"0.1s\""},
                                   {"maxBackoff", "\"1s\""},
                                   {"backoffMultiplier", "2"},
                                   {"retryableStatusCodes", "[14]"}},
                                  GetParam().member);
  EXPECT_EQ(ErrorsOf(InMethodConfig("retryPolicy", policy)),
            "methodConfig[0].retryPolicy" + GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Unit, RetryPolicyErrors,
    ::testing::Values(
        Case{"MaxAttemptsMissing",
             {"maxAttempts", ""},
             ".maxAttempts: missing; write an integer of 2 or more"},
        Case{"MaxAttemptsOfAWrongType",
             {"maxAttempts", "true"},
             ".maxAttempts: true is no integer; write an integer of 2 or more"},
        Case{"MaxAttemptsNull",
             {"maxAttempts", "null"},
             ".maxAttempts: null is no integer; write an integer of 2 or more"},
        Case{"MaxAttemptsWithAFraction",
             {"maxAttempts", "2.5"},
             ".maxAttempts: 2.5 is no integer; write an integer of 2 or more"},
        Case{"MaxAttemptsOfOne",
             {"maxAttempts", "1"},
             ".maxAttempts: 1 is out of range; write an integer of 2 or more"},
        Case{"MaxAttemptsNegative",
             {"maxAttempts", "-4"},
             ".maxAttempts: -4 is out of range; write an integer of 2 or more"},
        Case{"MaxAttemptsTooLarge",
             {"maxAttempts", "99999999999999999999"},
             ".maxAttempts: 99999999999999999999 is out of range; write an "
             "integer from 2 to 2147483647"},
        Case{"MaxAttemptsOfWords",
             {"maxAttempts", "\"four\""},
             ".maxAttempts: \"four\" is no integer; write an integer of 2 or "
             "more"},
        Case{"InitialBackoffMissing",
             {"initialBackoff", ""},
             ".initialBackoff: missing; write seconds with an \"s\", such as "
             "\"0.1s\""},
        Case{"InitialBackoffWithoutUnit",
             {"initialBackoff", "\"1\""},
             ".initialBackoff: \"1\" " + kDuration},
        Case{"InitialBackoffOfAWrongUnit",
             {"initialBackoff", "\"1sec\""},
             ".initialBackoff: \"1sec\" " + kDuration},
        Case{"InitialBackoffANumber",
             {"initialBackoff", "1"},
             ".initialBackoff: 1 " + kDuration},
        Case{"InitialBackoffWithTenDecimals",
             {"initialBackoff", "\"0.1234567890s\""},
             ".initialBackoff: \"0.1234567890s\" " + kDuration},
        Case{"InitialBackoffZero",
             {"initialBackoff", "\"0s\""},
             ".initialBackoff: \"0s\" " + kDurationRange},
        Case{"InitialBackoffNegative",
             {"initialBackoff", "\"-0.1s\""},
             ".initialBackoff: \"-0.1s\" " + kDurationRange},
        Case{"MaxBackoffMissing",
             {"maxBackoff", ""},
             ".maxBackoff: missing; write seconds with an \"s\", such as "
             "\"0.1s\""},
        Case{"MaxBackoffOfAWrongType",
             {"maxBackoff", "{}"},
             ".maxBackoff: an object " + kDuration},
        Case{"MaxBackoffTooLong",
             {"maxBackoff", "\"315576000001s\""},
             ".maxBackoff: \"315576000001s\" " + kDurationRange},
        Case{"MaxBackoffBelowInitial",
             {"maxBackoff", "\"0.05s\""},
             ".maxBackoff: \"0.05s\" is less than initialBackoff; write "
             "\"0.1s\" or more"},
        Case{"MultiplierMissing",
             {"backoffMultiplier", ""},
             ".backoffMultiplier: missing; write a finite number above 0"},
        Case{"MultiplierOfAWrongType",
             {"backoffMultiplier", "[]"},
             ".backoffMultiplier: an empty list is no number; write a finite "
             "number above 0"},
        Case{"MultiplierZero",
             {"backoffMultiplier", "0"},
             ".backoffMultiplier: 0 is out of range; write a finite number "
             "above 0"},
        Case{"MultiplierNegative",
             {"backoffMultiplier", "-1.6"},
             ".backoffMultiplier: -1.6 is out of range; write a finite number "
             "above 0"},
        Case{"MultiplierInfinite",
             {"backoffMultiplier", "\"1e999\""},
             ".backoffMultiplier: \"1e999\" is out of range; write a finite "
             "number above 0"},
        Case{"MultiplierNaN",
             {"backoffMultiplier", "\"NaN\""},
             ".backoffMultiplier: \"NaN\" is no number; write a finite number "
             "above 0"},
        Case{"CodesMissing",
             {"retryableStatusCodes", ""},
             ".retryableStatusCodes: missing; " + kCodes},
        Case{"CodesOfAWrongType",
             {"retryableStatusCodes", "14"},
             ".retryableStatusCodes: 14 is no list; " + kCodes},
        Case{"CodesEmpty",
             {"retryableStatusCodes", "[]"},
             ".retryableStatusCodes: an empty list; " + kCodes},
        Case{"CodesWithAWrongType",
             {"retryableStatusCodes", "[14, true]"},
             ".retryableStatusCodes[1]: true is no status code; " + kCode},
        Case{"CodesWithOk",
             {"retryableStatusCodes", "[\"OK\"]"},
             ".retryableStatusCodes[0]: \"OK\" is no failure; " + kCode},
        Case{"CodesWithZero",
             {"retryableStatusCodes", "[0]"},
             ".retryableStatusCodes[0]: 0 is no failure; " + kCode},
        Case{"CodesWithSeventeen",
             {"retryableStatusCodes", "[17]"},
             ".retryableStatusCodes[0]: 17 is no status code; " + kCode},
        Case{"CodesWithANegative",
             {"retryableStatusCodes", "[-1]"},
             ".retryableStatusCodes[0]: -1 is no status code; " + kCode},
        Case{"CodesWithAFraction",
             {"retryableStatusCodes", "[14.5]"},
             ".retryableStatusCodes[0]: 14.5 is no status code; " + kCode},
        Case{"CodesMisspelt",
             {"retryableStatusCodes", "[\"UNAVAILBLE\"]"},
             ".retryableStatusCodes[0]: \"UNAVAILBLE\" is no status code; " +
                 kCode + "; did you mean \"UNAVAILABLE\"?"},
        Case{"CodesUnknown",
             {"retryableStatusCodes", "[\"NOPE\"]"},
             ".retryableStatusCodes[0]: \"NOPE\" is no status code; " + kCode},
        Case{"PerAttemptRecvTimeoutOfAWrongType",
             {"perAttemptRecvTimeout", "1"},
             ".perAttemptRecvTimeout: 1 " + kDuration},
        Case{"PerAttemptRecvTimeoutOfAWrongUnit",
             {"perAttemptRecvTimeout", "\"1ms\""},
             ".perAttemptRecvTimeout: \"1ms\" " + kDuration},
        Case{"PerAttemptRecvTimeoutZero",
             {"perAttemptRecvTimeout", "\"0s\""},
             ".perAttemptRecvTimeout: \"0s\" " + kDurationRange},
        Case{"UnknownKey",
             {"foo", "1"},
             ".foo: unknown key; known are maxAttempts, initialBackoff, "
             "maxBackoff, backoffMultiplier, retryableStatusCodes, "
             "perAttemptRecvTimeout"},
        Case{"MisspeltKey",
             {"maxBackof", "\"1s\""},
             ".maxBackof: unknown key; did you mean \"maxBackoff\"?"},
        Case{"SnakeCaseKey",
             {"max_attempts", "1"},
             ".max_attempts: unknown key; did you mean \"maxAttempts\"?"},
        Case{"KeyThatIsNoWord",
             {"max Attempts\\n", "1"},
             "[\"max Attempts\\n\"]: unknown key; did you mean "
             "\"maxAttempts\"?"}),
    NameOf);

class RetryThrottlingErrors : public ::testing::TestWithParam<Case> {};

TEST_P(RetryThrottlingErrors, AreTold) {
  const std::string throttling =
      With({{"maxTokens", "10"}, {"tokenRatio", "0.1"}}, GetParam().member);
  EXPECT_EQ(ErrorsOf(absl::StrCat(R"({"retryThrottling": )", throttling, "}")),
            "retryThrottling" + GetParam().want);
}

const std::string kRatio =
    "write 0.001 or more (from the fourth on, decimals are cut off)";

INSTANTIATE_TEST_SUITE_P(
    Unit, RetryThrottlingErrors,
    ::testing::Values(
        Case{"MaxTokensMissing",
             {"maxTokens", ""},
             ".maxTokens: missing; write an integer from 1 to 1000"},
        Case{"MaxTokensOfAWrongType",
             {"maxTokens", "\"x\""},
             ".maxTokens: \"x\" is no integer; write an integer from 1 to "
             "1000"},
        Case{"MaxTokensNegative",
             {"maxTokens", "-2"},
             ".maxTokens: -2 is out of range; write an integer from 1 to 1000"},
        Case{"MaxTokensZero",
             {"maxTokens", "0"},
             ".maxTokens: 0 is out of range; write an integer from 1 to 1000"},
        Case{"MaxTokensTooLarge",
             {"maxTokens", "1001"},
             ".maxTokens: 1001 is out of range; write an integer from 1 to "
             "1000"},
        Case{"TokenRatioMissing",
             {"tokenRatio", ""},
             ".tokenRatio: missing; " + kRatio},
        Case{"TokenRatioOfAWrongType",
             {"tokenRatio", "false"},
             ".tokenRatio: false is no number; " + kRatio},
        Case{"TokenRatioZero",
             {"tokenRatio", "0"},
             ".tokenRatio: 0 is out of range; " + kRatio},
        Case{"TokenRatioThatIsCutToZero",
             {"tokenRatio", "0.0009"},
             ".tokenRatio: 0.0009 is out of range; " + kRatio},
        Case{"TokenRatioNegative",
             {"tokenRatio", "-1.0"},
             ".tokenRatio: -1.0 is out of range; " + kRatio},
        Case{"MisspeltKey",
             {"tokenRation", "1"},
             ".tokenRation: unknown key; did you mean \"tokenRatio\"?"},
        Case{"UnknownKey",
             {"x", "1"},
             ".x: unknown key; known are maxTokens, tokenRatio"}),
    NameOf);

class MethodGuardErrors : public ::testing::TestWithParam<Case> {};

TEST_P(MethodGuardErrors, AreTold) {
  EXPECT_EQ(ErrorsOf(InMethodConfig("retryGuard", With({}, GetParam().member))),
            "methodConfig[0].retryGuard" + GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Unit, MethodGuardErrors,
    ::testing::Values(
        Case{"MaxAttemptsOfAWrongType",
             {"maxAttempts", "[1]"},
             ".maxAttempts: a list is no integer; write an integer from 1 to "
             "20"},
        Case{"MaxAttemptsZero",
             {"maxAttempts", "0"},
             ".maxAttempts: 0 is out of range; write an integer from 1 to 20"},
        Case{"MaxAttemptsTooLarge",
             {"maxAttempts", "21"},
             ".maxAttempts: 21 is out of range; write an integer from 1 to "
             "20"},
        Case{"JitterOfAWrongType",
             {"jitter", "0.2"},
             ".jitter: 0.2 is no text; write \"FULL\", \"EQUAL\", "
             "\"DECORRELATED\", \"PROPORTIONAL\" or \"NONE\""},
        Case{"JitterInLowerCase",
             {"jitter", "\"full\""},
             ".jitter: \"full\" is unknown; write \"FULL\", \"EQUAL\", "
             "\"DECORRELATED\", \"PROPORTIONAL\" or \"NONE\"; did you mean "
             "\"FULL\"?"},
        Case{"JitterUnknown",
             {"jitter", "\"WILD\""},
             ".jitter: \"WILD\" is unknown; write \"FULL\", \"EQUAL\", "
             "\"DECORRELATED\", \"PROPORTIONAL\" or \"NONE\""},
        Case{"PerAttemptTimeoutOfAWrongType",
             {"perAttemptTimeout", "1"},
             ".perAttemptTimeout: 1 " + kDuration},
        Case{"PerAttemptTimeoutZero",
             {"perAttemptTimeout", "\"0s\""},
             ".perAttemptTimeout: \"0s\" " + kDurationRange},
        Case{"MinAttemptTimeOfAWrongType",
             {"minAttemptTime", "null"},
             ".minAttemptTime: null " + kDuration},
        Case{"MinAttemptTimeNegative",
             {"minAttemptTime", "\"-1s\""},
             ".minAttemptTime: \"-1s\" " + kDurationRange},
        Case{"IdempotencyOfAWrongType",
             {"idempotency", "true"},
             ".idempotency: true is no text; write \"IDEMPOTENT\" or "
             "\"NON_IDEMPOTENT\""},
        Case{"IdempotencyUnknown",
             {"idempotency", "\"NON-IDEMPOTENT\""},
             ".idempotency: \"NON-IDEMPOTENT\" is unknown; write "
             "\"IDEMPOTENT\" or \"NON_IDEMPOTENT\"; did you mean "
             "\"NON_IDEMPOTENT\"?"},
        Case{"IdempotencyKeyOfAWrongType",
             {"idempotencyKey", "\"yes\""},
             ".idempotencyKey: \"yes\" is no boolean; write true or false, "
             "without quotes"},
        Case{"LayerOfAWrongType",
             {"layer", "1"},
             ".layer: 1 is no text; write \"OUTERMOST\", \"HERE\" or "
             "\"NEVER\""},
        Case{"LayerUnknown",
             {"layer", "\"INNERMOST\""},
             ".layer: \"INNERMOST\" is unknown; write \"OUTERMOST\", \"HERE\" "
             "or \"NEVER\""},
        Case{"BreakerOfAWrongType",
             {"breaker", "{}"},
             ".breaker: an object is no text; write \"OWN\""},
        Case{"BreakerUnknown",
             {"breaker", "\"own\""},
             ".breaker: \"own\" is unknown; write \"OWN\"; did you mean "
             "\"OWN\"?"},
        Case{"MaxPushbackOfAWrongType",
             {"maxPushback", "60"},
             ".maxPushback: 60 " + kDuration},
        Case{"MaxPushbackZero",
             {"maxPushback", "\"0s\""},
             ".maxPushback: \"0s\" " + kDurationRange},
        Case{"PushbackJitterOfAWrongType",
             {"pushbackJitter", "\"some\""},
             ".pushbackJitter: \"some\" is no number; write a number from 0 to "
             "1"},
        Case{"PushbackJitterTooLarge",
             {"pushbackJitter", "1.01"},
             ".pushbackJitter: 1.01 is out of range; write a number from 0 to "
             "1"},
        Case{"PushbackJitterNegative",
             {"pushbackJitter", "-0.1"},
             ".pushbackJitter: -0.1 is out of range; write a number from 0 to "
             "1"},
        Case{"BufferLimitOfAWrongType",
             {"bufferLimitBytes", "\"64k\""},
             ".bufferLimitBytes: \"64k\" is no integer; write an integer from "
             "0 to 67108864"},
        Case{"BufferLimitTooLarge",
             {"bufferLimitBytes", "67108865"},
             ".bufferLimitBytes: 67108865 is out of range; write an integer "
             "from 0 to 67108864"},
        Case{"BufferLimitNegative",
             {"bufferLimitBytes", "-1"},
             ".bufferLimitBytes: -1 is out of range; write an integer from 0 "
             "to 67108864"},
        Case{"MisspeltKey",
             {"idempotent", "true"},
             ".idempotent: unknown key; did you mean \"idempotency\"?"},
        Case{"UnknownKey",
             {"foo", "1"},
             ".foo: unknown key; known are maxAttempts, jitter, "
             "perAttemptTimeout, minAttemptTime, idempotency, idempotencyKey, "
             "layer, breaker, maxPushback, pushbackJitter, "
             "bufferLimitBytes"}),
    NameOf);

class BudgetErrors : public ::testing::TestWithParam<Case> {};

TEST_P(BudgetErrors, AreTold) {
  EXPECT_EQ(ErrorsOf(absl::StrCat(R"({"retryGuard": {"budget": )",
                                  With({}, GetParam().member), "}}")),
            "retryGuard.budget" + GetParam().want);
}

const std::string kWindow =
    "is out of range; write \"0.001s\" to \"315576000000s\"";

INSTANTIATE_TEST_SUITE_P(
    Unit, BudgetErrors,
    ::testing::Values(
        Case{"RatioOfAWrongType",
             {"ratio", "\"10%\""},
             ".ratio: \"10%\" is no number; write a number from 0 to 1"},
        Case{"RatioTooLarge",
             {"ratio", "10"},
             ".ratio: 10 is out of range; write a number from 0 to 1"},
        Case{"RatioNegative",
             {"ratio", "-0.1"},
             ".ratio: -0.1 is out of range; write a number from 0 to 1"},
        Case{"MinRetriesOfAWrongType",
             {"minRetries", "0.5"},
             ".minRetries: 0.5 is no integer; write an integer of 0 or more"},
        Case{"MinRetriesNegative",
             {"minRetries", "-1"},
             ".minRetries: -1 is out of range; write an integer of 0 or more"},
        Case{
            "WindowOfAWrongType", {"window", "10"}, ".window: 10 " + kDuration},
        Case{"WindowTooShort",
             {"window", "\"0.0001s\""},
             ".window: \"0.0001s\" " + kWindow},
        Case{"MaxRetriesOfAWrongType",
             {"maxRetries", "null"},
             ".maxRetries: null is no integer; write an integer of 0 or more"},
        Case{"MaxRetriesNegative",
             {"maxRetries", "-1"},
             ".maxRetries: -1 is out of range; write an integer of 0 or more"},
        Case{"MaxRetriesTooLarge",
             {"maxRetries", "2147483648"},
             ".maxRetries: 2147483648 is out of range; write an integer from 0 "
             "to 2147483647"},
        Case{"MaxRetriesWindowOfAWrongType",
             {"maxRetriesWindow", "\"1m\""},
             ".maxRetriesWindow: \"1m\" " + kDuration},
        Case{"MaxRetriesWindowZero",
             {"maxRetriesWindow", "\"0s\""},
             ".maxRetriesWindow: \"0s\" " + kWindow},
        Case{"UnknownKey",
             {"percent", "10"},
             ".percent: unknown key; known are ratio, minRetries, window, "
             "maxRetries, maxRetriesWindow"},
        Case{"MisspeltKey",
             {"minRetrie", "1"},
             ".minRetrie: unknown key; did you mean \"minRetries\"?"}),
    NameOf);

class BreakerErrors : public ::testing::TestWithParam<Case> {};

TEST_P(BreakerErrors, AreTold) {
  EXPECT_EQ(ErrorsOf(absl::StrCat(R"({"retryGuard": {"breaker": )",
                                  With({}, GetParam().member), "}}")),
            "retryGuard.breaker" + GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Unit, BreakerErrors,
    ::testing::Values(
        Case{"FailureRateOfAWrongType",
             {"failureRate", "{}"},
             ".failureRate: an object is no number; write a number from 0 to "
             "1"},
        Case{"FailureRateTooLarge",
             {"failureRate", "50"},
             ".failureRate: 50 is out of range; write a number from 0 to 1"},
        Case{"MinRequestsOfAWrongType",
             {"minRequests", "true"},
             ".minRequests: true is no integer; write an integer of 0 or more"},
        Case{"MinRequestsNegative",
             {"minRequests", "-1"},
             ".minRequests: -1 is out of range; write an integer of 0 or more"},
        Case{"WindowOfAWrongType", {"window", "3"}, ".window: 3 " + kDuration},
        Case{"WindowTooShort",
             {"window", "\"0.0009s\""},
             ".window: \"0.0009s\" is out of range; write \"0.001s\" to "
             "\"3600s\""},
        Case{"WindowTooLong",
             {"window", "\"3600.1s\""},
             ".window: \"3600.1s\" is out of range; write \"0.001s\" to "
             "\"3600s\""},
        Case{"ConsecutiveFailuresOfAWrongType",
             {"consecutiveFailures", "\"five\""},
             ".consecutiveFailures: \"five\" is no integer; write an integer "
             "of 0 or more"},
        Case{"ConsecutiveFailuresNegative",
             {"consecutiveFailures", "-5"},
             ".consecutiveFailures: -5 is out of range; write an integer of 0 "
             "or more"},
        Case{"OpenForOfAWrongType",
             {"openFor", "1"},
             ".openFor: 1 " + kDuration},
        Case{"OpenForZero",
             {"openFor", "\"0s\""},
             ".openFor: \"0s\" " + kDurationRange},
        Case{"MaxOpenForOfAWrongType",
             {"maxOpenFor", "[]"},
             ".maxOpenFor: an empty list " + kDuration},
        Case{"MaxOpenForBelowOpenFor",
             {"maxOpenFor", "\"0.5s\""},
             ".maxOpenFor: \"0.5s\" is less than openFor; write \"1s\" or "
             "more"},
        Case{"ProbesOfAWrongType",
             {"probes", "\"\""},
             ".probes: \"\" is no integer; write an integer from 1 to 1000"},
        Case{"ProbesZero",
             {"probes", "0"},
             ".probes: 0 is out of range; write an integer from 1 to 1000"},
        Case{"FailureStatusCodesOfAWrongType",
             {"failureStatusCodes", "\"UNAVAILABLE\""},
             ".failureStatusCodes: \"UNAVAILABLE\" is no list; " + kCodes},
        Case{"FailureStatusCodesEmpty",
             {"failureStatusCodes", "[]"},
             ".failureStatusCodes: an empty list; " + kCodes},
        Case{"FailureStatusCodesWithOk",
             {"failureStatusCodes", "[\"ok\"]"},
             ".failureStatusCodes[0]: \"ok\" is no failure; " + kCode},
        Case{"UnknownKey",
             {"sleep", "1"},
             ".sleep: unknown key; known are failureRate, minRequests, window, "
             "consecutiveFailures, openFor, maxOpenFor, probes, "
             "failureStatusCodes"},
        Case{"MisspeltKey",
             {"failurerate", "1"},
             ".failurerate: unknown key; did you mean \"failureRate\"?"}),
    NameOf);

// A whole document and all that is told of it.
struct Document {
  std::string name;
  std::string json;
  std::string want;
};

void PrintTo(const Document& document, std::ostream* out) {
  *out << document.name;
}

class DocumentErrors : public ::testing::TestWithParam<Document> {};

TEST_P(DocumentErrors, AreTold) {
  EXPECT_EQ(ErrorsOf(GetParam().json), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Unit, DocumentErrors,
    ::testing::Values(
        Document{"NoJson", "{\"methodConfig\": [}",
                 "line 1, column 19: invalid value"},
        Document{"BlankIsNotEmpty", " ",
                 "line 1, column 2: the document is empty"},
        Document{"NoObject", "[]",
                 "service config: an empty list is no object; write {...}"},
        Document{"MethodConfigNoList", R"({"methodConfig": {}})",
                 "methodConfig: an object is no list; write [{...}]"},
        Document{"MethodConfigNull", R"({"methodConfig": null})",
                 "methodConfig: null is no list; write [{...}]"},
        Document{"MethodConfigElementNoObject", R"({"methodConfig": [5]})",
                 "methodConfig[0]: 5 is no object; write {...}"},
        Document{"RetryPolicyNoObject",
                 R"({"methodConfig": [{"name": [{}], "retryPolicy": null}]})",
                 "methodConfig[0].retryPolicy: null is no object; write {...}, "
                 "or leave the key out"},
        Document{"MethodGuardNoObject",
                 R"({"methodConfig": [{"name": [{}], "retryGuard": "on"}]})",
                 "methodConfig[0].retryGuard: \"on\" is no object; write "
                 "{...}, or leave the key out"},
        Document{"RetryThrottlingNoObject", R"({"retryThrottling": 5})",
                 "retryThrottling: 5 is no object; write {...}, or leave the "
                 "key out"},
        Document{"ChannelGuardNoObject", R"({"retryGuard": []})",
                 "retryGuard: an empty list is no object; write {...}, or "
                 "leave the key out"},
        Document{"BudgetNoObject", R"({"retryGuard": {"budget": 0.1}})",
                 "retryGuard.budget: 0.1 is no object; write {...}, or leave "
                 "the key out"},
        Document{"BreakerNoObject", R"({"retryGuard": {"breaker": "OWN"}})",
                 "retryGuard.breaker: \"OWN\" is no object; write {...}, or "
                 "leave the key out"},
        Document{"ChannelGuardMisspeltKey", R"({"retryGuard": {"buget": {}}})",
                 "retryGuard.buget: unknown key; did you mean \"budget\"?"},
        Document{"ChannelGuardUnknownKey", R"({"retryGuard": {"jitter": {}}})",
                 "retryGuard.jitter: unknown key; known are budget, breaker, "
                 "layerName"},
        Document{"LayerNameOfAWrongType", R"({"retryGuard": {"layerName": 5}})",
                 "retryGuard.layerName: 5 is no text; write a name in quotes"},
        Document{"LayerNameEmpty", R"({"retryGuard": {"layerName": ""}})",
                 "retryGuard.layerName: \"\" is no layer name; write 1 to 128 "
                 "printable ASCII characters, no space at either end"},
        Document{"LayerNameThatCannotTravel",
                 R"({"retryGuard": {"layerName": "a\nb"}})",
                 "retryGuard.layerName: \"a\\nb\" is no layer name; write 1 to "
                 "128 printable ASCII characters, no space at either end"},
        Document{"TimeoutOfAWrongType",
                 R"({"methodConfig": [{"name": [{}], "timeout": 2}]})",
                 "methodConfig[0].timeout: 2 " + kDuration},
        Document{"TimeoutZero",
                 R"({"methodConfig": [{"name": [{}], "timeout": "0s"}]})",
                 "methodConfig[0].timeout: \"0s\" " + kDurationRange},
        Document{"WaitForReadyOfAWrongType",
                 R"({"methodConfig": [{"name": [{}], "waitForReady": 1}]})",
                 "methodConfig[0].waitForReady: 1 is no boolean; write true or "
                 "false, without quotes"},
        Document{"NameNoList", R"({"methodConfig": [{"name": "S"}]})",
                 "methodConfig[0].name: \"S\" is no list; write [{\"service\": "
                 "\"...\"}]"},
        Document{"NameElementNoObject",
                 R"({"methodConfig": [{"name": ["S"]}]})",
                 "methodConfig[0].name[0]: \"S\" is no object; write "
                 "{\"service\": \"...\"}"},
        Document{"ServiceOfAWrongType",
                 R"({"methodConfig": [{"name": [{"service": 5}]}]})",
                 "methodConfig[0].name[0].service: 5 is no text; write a name "
                 "in quotes"},
        Document{"MethodWithoutService",
                 R"({"methodConfig": [{"name": [{"method": "M"}]}]})",
                 "methodConfig[0].name[0].method: \"M\" has no service; write "
                 "both or neither"},
        Document{"MethodWithAnEmptyService",
                 R"({"methodConfig": [{"name": [{"service": "",
                                                 "method": "M"}]}]})",
                 "methodConfig[0].name[0].method: \"M\" has no service; write "
                 "both or neither"},
        Document{"MethodNameTwice",
                 R"({"methodConfig": [
                     {"name": [{"service": "S", "method": "M"}]},
                     {"name": [{"service": "T"},
                               {"service": "S", "method": "M"}]}]})",
                 "methodConfig[1].name[1]: \"/S/M\" stands already in "
                 "methodConfig[0]; write each name once"},
        Document{"ServiceNameTwiceInOneList",
                 R"({"methodConfig": [
                     {"name": [{"service": "S"},
                               {"service": "S", "method": ""}]}]})",
                 "methodConfig[0].name[1]: \"/S/\" stands already in "
                 "methodConfig[0]; write each name once"},
        Document{"DefaultTwice",
                 R"({"methodConfig": [{"name": [{}]},
                                      {"name": [{"service": ""}]}]})",
                 "methodConfig[1].name[0]: the default stands already in "
                 "methodConfig[0]; write each name once"},
        Document{"RetryAndHedging",
                 R"({"methodConfig": [{"name": [{}],
                     "retryPolicy": {
                       "maxAttempts": 4, "initialBackoff": "0.1s",
                       "maxBackoff": "1s", "backoffMultiplier": 2,
                       "retryableStatusCodes": ["UNAVAILABLE"]},
                     "hedgingPolicy": {"maxAttempts": 4}}]})",
                 "methodConfig[0].hedgingPolicy: stands next to a retryPolicy; "
                 "write only one of the two"},
        Document{"DuplicateKeyInOurPart",
                 R"({"retryGuard": {"budget": {"ratio": 0.1, "ratio": 0.2}}})",
                 "retryGuard.budget.ratio: duplicate key; write it once"},
        Document{"DuplicateKeyAnywhere",
                 R"({"x": [{"y": 1, "y": 1}], "retryGuard": {},
                     "retryGuard": {}})",
                 "x[0].y: duplicate key; write it once\n"
                 "retryGuard: duplicate key; write it once"}),
    [](const ::testing::TestParamInfo<Document>& info) {
      return info.param.name;
    });

TEST(ServiceConfigErrorsTest, AllComeAtOnceEachWithItsPath) {
  EXPECT_EQ(
      ErrorsOf(R"({
          "methodConfig": [
            {"name": [{"service": "S"}], "timeout": "2"},
            {"name": [{"service": "S"}],
             "retryPolicy": {"maxAttempts": 1, "initialBackoff": "1",
                             "maxBackoff": "10s", "maxBackof": "10s",
                             "retryableStatusCodes": [17, "NOPE"]},
             "retryGuard": {"jitter": "full"}}],
          "retryThrottling": {},
          "retryGuard": {"budget": {"ratio": 2}, "layername": "x"}})"),
      "methodConfig[0].timeout: \"2\" is no duration; write seconds with an "
      "\"s\", such as \"0.1s\"\n"
      "methodConfig[1].name[0]: \"/S/\" stands already in methodConfig[0]; "
      "write each name once\n"
      "methodConfig[1].retryPolicy.maxBackof: unknown key; did you mean "
      "\"maxBackoff\"?\n"
      "methodConfig[1].retryPolicy.maxAttempts: 1 is out of range; write an "
      "integer of 2 or more\n"
      "methodConfig[1].retryPolicy.initialBackoff: \"1\" is no duration; write "
      "seconds with an \"s\", such as \"0.1s\"\n"
      "methodConfig[1].retryPolicy.backoffMultiplier: missing; write a finite "
      "number above 0\n"
      "methodConfig[1].retryPolicy.retryableStatusCodes[0]: 17 is no status "
      "code; write a name such as \"UNAVAILABLE\" or a number from 1 to 16\n"
      "methodConfig[1].retryPolicy.retryableStatusCodes[1]: \"NOPE\" is no "
      "status code; write a name such as \"UNAVAILABLE\" or a number from 1 to "
      "16\n"
      "methodConfig[1].retryGuard.jitter: \"full\" is unknown; write \"FULL\", "
      "\"EQUAL\", \"DECORRELATED\", \"PROPORTIONAL\" or \"NONE\"; did you mean "
      "\"FULL\"?\n"
      "retryThrottling.maxTokens: missing; write an integer from 1 to 1000\n"
      "retryThrottling.tokenRatio: missing; write 0.001 or more (from the "
      "fourth on, decimals are cut off)\n"
      "retryGuard.layername: unknown key; did you mean \"layerName\"?\n"
      "retryGuard.budget.ratio: 2 is out of range; write a number from 0 to 1");
}

TEST(ServiceConfigErrorsTest, WhatWasFoundFitsOnOneLine) {
  const std::string error = ErrorsOf(InMethodConfig(
      "timeout", absl::StrCat("\"a\\n\\\"", std::string(1000, 'b'), "\"")));
  EXPECT_EQ(error, absl::StrCat("methodConfig[0].timeout: \"a\\n\\\"",
                                std::string(61, 'b'), "...\" ", kDuration));
}

}  // namespace
}  // namespace retry_guard
