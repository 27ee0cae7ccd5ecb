#include "retry_guard/config/method_config_reader.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "retry_guard/config/field_reader.h"
#include "retry_guard/config/known_keys.h"
#include "retry_guard/policy/absl_view.h"

namespace retry_guard {
namespace {

// gRFC A6: more attempts are read as this many.
constexpr int kMostAttemptsOfGrpc = 5;
constexpr IntegerRange kGrpcAttempts = {2};
constexpr IntegerRange kOurAttempts = {1, 20};
constexpr IntegerRange kBufferLimit = {0, int64_t{64} * 1024 * 1024};

// Beyond these every ladder looks the same, and core's float goes no further.
constexpr double kLeastMultiplier = 1e-30;
constexpr double kMostMultiplier = 1e30;

constexpr EnumValue<Jitter> kJitters[] = {
    {"FULL", Jitter::kFull},
    {"EQUAL", Jitter::kEqual},
    {"DECORRELATED", Jitter::kDecorrelated},
    {"PROPORTIONAL", Jitter::kProportional},
    {"NONE", Jitter::kNone},
};
constexpr EnumValue<Idempotency> kIdempotencies[] = {
    {"IDEMPOTENT", Idempotency::kIdempotent},
    {"NON_IDEMPOTENT", Idempotency::kNonIdempotent},
};
constexpr EnumValue<Layer> kLayers[] = {
    {"OUTERMOST", Layer::kOutermost},
    {"HERE", Layer::kHere},
    {"NEVER", Layer::kNever},
};
constexpr EnumValue<bool> kBreakers[] = {{"OWN", true}};

// Reads `methodConfig[].retryPolicy`.
class RetryPolicyReader {
 public:
  RetryPolicyReader(const JsonValue& json, ErrorList* errors,
                    SourceEdits* for_core)
      : json_(json),
        reader_(json, known_keys::kRetryPolicy, errors),
        errors_(errors),
        for_core_(for_core) {}

  // `attempts_lifted`: the number of attempts stands elsewhere.
  void Read(bool attempts_lifted, MethodPolicy* policy) {
    ReadAttempts(attempts_lifted, policy);
    ReadBackoff(&policy->backoff);
    const JsonValue* timeout = json_.Find("perAttemptRecvTimeout");
    ReadCodes(/*may_be_absent=*/timeout != nullptr, policy);
    Assign(ReadDuration("perAttemptRecvTimeout", Presence::kOptional),
           &policy->per_attempt_timeout);
  }

 private:
  void ReadAttempts(bool attempts_lifted, MethodPolicy* policy) {
    const std::optional<int64_t> attempts =
        reader_.Integer("maxAttempts", kGrpcAttempts, Presence::kRequired);
    if (!attempts) return;
    policy->max_attempts =
        static_cast<int>(std::min<int64_t>(*attempts, kMostAttemptsOfGrpc));
    // Core takes "4", but not 4.0.
    for_core_->Replace(*json_.Find("maxAttempts"), absl::StrCat(*attempts));
    if (*attempts > kMostAttemptsOfGrpc && !attempts_lifted) {
      const auto scope = errors_->Key("maxAttempts");
      errors_->Warn(
          absl::StrCat(*attempts, " is taken as ", kMostAttemptsOfGrpc,
                       ", as in gRPC; retryGuard.maxAttempts goes up to ",
                       kOurAttempts.max));
    }
  }

  void ReadBackoff(BackoffPolicy* backoff) {
    const auto initial = ReadDuration("initialBackoff", Presence::kRequired);
    const auto max = ReadDuration("maxBackoff", Presence::kRequired);
    Assign(initial, &backoff->initial);
    Assign(max, &backoff->max);
    if (initial && max && *max < *initial) {
      const auto scope = errors_->Key("maxBackoff");
      const std::string least = FormatJsonDuration(*initial);
      errors_->Add(absl::StrCat(Found(*json_.Find("maxBackoff")),
                                " is less than initialBackoff; write \"", least,
                                "\" or more"));
    }

    const std::optional<double> multiplier =
        reader_.Number("backoffMultiplier", {}, Presence::kRequired);
    if (!multiplier) return;
    backoff->multiplier =
        std::clamp(*multiplier, kLeastMultiplier, kMostMultiplier);
    const JsonValue* json = json_.Find("backoffMultiplier");
    for_core_->Replace(*json, backoff->multiplier == *multiplier
                                  ? json->text
                                  : absl::StrCat(backoff->multiplier));
  }

  void ReadCodes(bool may_be_absent, MethodPolicy* policy) {
    constexpr absl::string_view kKey = "retryableStatusCodes";
    const JsonValue* json = json_.Find(kKey);
    // With a timeout per attempt there may be no list: then nothing but such a
    // timeout is retried. Core insists on a list; its OK never matches, so that
    // is how "none" is spelt for core, and read back.
    if (may_be_absent && (json == nullptr || IsNone(*json))) {
      policy->retryable_codes = {};
      if (json == nullptr) {
        for_core_->AddMember(json_, absl::StrCat("\"", kKey, R"(": ["OK"])"));
      }
      return;
    }
    const auto codes = reader_.StatusCodes(kKey, Presence::kRequired);
    if (!codes) return;
    policy->retryable_codes = *codes;
    // Core takes neither numbers nor lower case.
    for (const JsonValue& element : json->elements) {
      for_core_->Replace(
          element,
          absl::StrCat("\"", AbslView(StatusCodeName(*StatusCodeOf(element))),
                       "\""));
    }
  }

  static bool IsNone(const JsonValue& codes) {
    return codes.elements.size() == 1 && codes.elements[0].text == "OK";
  }

  // gRPC counts these in milliseconds, and core takes no zero.
  std::optional<absl::Duration> ReadDuration(absl::string_view key,
                                             Presence presence) {
    constexpr absl::Duration kLeast = absl::Milliseconds(1);
    std::optional<absl::Duration> duration =
        reader_.Duration(key, DurationRange(), presence);
    if (!duration) return std::nullopt;
    const JsonValue& json = *json_.Find(key);
    if (*duration < kLeast) {
      const auto scope = errors_->Key(key);
      errors_->Warn(absl::StrCat(Found(json), " is taken as \"",
                                 FormatJsonDuration(kLeast),
                                 "\": gRPC counts in milliseconds"));
      duration = kLeast;
    }
    for_core_->Replace(json,
                       absl::StrCat("\"", FormatJsonDuration(*duration), "\""));
    return duration;
  }

  const JsonValue& json_;
  const FieldReader reader_;
  ErrorList* const errors_;
  SourceEdits* const for_core_;
};

void ReadMethodGuard(const JsonValue& json, ErrorList* errors,
                     MethodPolicy* policy) {
  const FieldReader reader(json, known_keys::kMethodGuard, errors);
  Assign(reader.Integer("maxAttempts", kOurAttempts), &policy->max_attempts);
  Assign(reader.Enum("jitter", kJitters), &policy->backoff.jitter);
  Assign(reader.Duration("perAttemptTimeout"), &policy->per_attempt_timeout);
  Assign(reader.Duration("minAttemptTime"), &policy->min_attempt_time);
  Assign(reader.Enum("idempotency", kIdempotencies), &policy->idempotency);
  Assign(reader.Bool("idempotencyKey"), &policy->idempotency_key);
  Assign(reader.Enum("layer", kLayers), &policy->layer);
  Assign(reader.Enum("breaker", kBreakers), &policy->own_breaker);
  Assign(reader.Duration("maxPushback"), &policy->pushback.max_wait);
  Assign(reader.Number("pushbackJitter", {0, 1}), &policy->pushback.jitter);
  Assign(reader.Integer("bufferLimitBytes", kBufferLimit),
         &policy->buffer_limit_bytes);
}

}  // namespace

MethodPolicy ReadMethodConfig(const JsonValue& method_config, ErrorList* errors,
                              SourceEdits* for_core) {
  MethodPolicy policy;
  const FieldReader reader(method_config, errors);

  policy.timeout = reader.Duration("timeout");
  if (policy.timeout) {
    for_core->Replace(
        *method_config.Find("timeout"),
        absl::StrCat("\"", FormatJsonDuration(*policy.timeout), "\""));
  }
  policy.wait_for_ready = reader.Bool("waitForReady");

  const JsonValue* guard = reader.Object("retryGuard");
  const bool attempts_lifted =
      guard != nullptr && guard->Find("maxAttempts") != nullptr;
  if (const JsonValue* retry_policy = reader.Object("retryPolicy")) {
    const auto scope = errors->Key("retryPolicy");
    policy.has_retry_policy = true;
    RetryPolicyReader(*retry_policy, errors, for_core)
        .Read(attempts_lifted, &policy);
  }
  if (method_config.Find("hedgingPolicy") != nullptr) {
    const auto scope = errors->Key("hedgingPolicy");
    if (method_config.Find("retryPolicy") != nullptr) {
      errors->Add("stands next to a retryPolicy; write only one of the two");
    } else {
      errors->Warn("hedging is not done here; ignored");
    }
  }
  // After the standard part, which it overrides.
  if (guard != nullptr) {
    const auto scope = errors->Key("retryGuard");
    ReadMethodGuard(*guard, errors, &policy);
  }
  return policy;
}

}  // namespace retry_guard
