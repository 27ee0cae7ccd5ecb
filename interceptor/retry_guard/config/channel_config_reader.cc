#include "retry_guard/config/channel_config_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "retry_guard/config/field_reader.h"
#include "retry_guard/config/known_keys.h"
#include "retry_guard/policy/marker.h"

namespace retry_guard {
namespace {

constexpr IntegerRange kCount = {0};
constexpr IntegerRange kTokens = {1, 1000};
constexpr IntegerRange kProbes = {1, 1000};
constexpr NumberRange kShare = {0, 1};

// A window is counted in slots: one that is shorter has none.
constexpr absl::Duration kShortestWindow = absl::Milliseconds(1);
constexpr DurationRange kBudgetWindow = {kShortestWindow};
// A window much longer than a fault cannot open in time.
constexpr DurationRange kBreakerWindow = {kShortestWindow, absl::Hours(1)};

// More tokens per success than any bucket holds make no difference.
constexpr int64_t kMostMilliTokens = int64_t{1000} * 1000;

std::optional<int64_t> ReadMilliTokenRatio(const FieldReader& reader,
                                           SourceEdits* for_core) {
  constexpr absl::string_view kKey = "tokenRatio";
  constexpr absl::string_view kAllowed =
      "0.001 or more (from the fourth on, decimals are cut off)";
  const JsonValue* json = reader.Find(kKey, Presence::kRequired, kAllowed);
  if (json == nullptr) return std::nullopt;
  const auto scope = reader.errors()->Key(kKey);
  const std::optional<Decimal> ratio = NumberOf(*json);
  if (!ratio) {
    reader.errors()->Add(
        absl::StrCat(Found(*json), " is no number; write ", kAllowed));
    return std::nullopt;
  }
  const int64_t milli = std::min(ratio->Scaled(3), kMostMilliTokens);
  if (milli <= 0) {
    reader.errors()->Add(
        absl::StrCat(Found(*json), " is out of range; write ", kAllowed));
    return std::nullopt;
  }
  // Core reads 1 as 0.001 and knows no exponents.
  std::string text = absl::StrFormat("%d.%03d", milli / 1000, milli % 1000);
  while (text.back() == '0' && text[text.size() - 2] != '.') text.pop_back();
  for_core->Replace(*json, std::move(text));
  return milli;
}

std::optional<ThrottlePolicy> ReadThrottle(const JsonValue& json,
                                           ErrorList* errors,
                                           SourceEdits* for_core) {
  const FieldReader reader(json, known_keys::kRetryThrottling, errors);
  const auto tokens = reader.Integer("maxTokens", kTokens, Presence::kRequired);
  if (tokens) {
    // Core takes "10", but not 10.0.
    for_core->Replace(*json.Find("maxTokens"), absl::StrCat(*tokens));
  }
  const auto ratio = ReadMilliTokenRatio(reader, for_core);
  if (!tokens || !ratio) return std::nullopt;
  return ThrottlePolicy{*tokens * 1000, *ratio};
}

BudgetPolicy ReadBudget(const JsonValue& json, ErrorList* errors) {
  BudgetPolicy budget;
  const FieldReader reader(json, known_keys::kBudget, errors);
  Assign(reader.Number("ratio", kShare), &budget.ratio);
  Assign(reader.Integer("minRetries", kCount), &budget.min_retries);
  Assign(reader.Duration("window", kBudgetWindow), &budget.window);
  Assign(reader.Integer("maxRetries", kCount), &budget.max_retries);
  Assign(reader.Duration("maxRetriesWindow", kBudgetWindow),
         &budget.max_retries_window);
  return budget;
}

void ReadOpenFor(const JsonValue& json, const FieldReader& reader,
                 BreakerPolicy* breaker) {
  const auto open_for = reader.Duration("openFor");
  const auto max = reader.Duration("maxOpenFor");
  Assign(open_for, &breaker->open_for);
  // Who asks for a long openFor alone must not trip over a default.
  breaker->max_open_for =
      max.value_or(std::max(breaker->max_open_for, breaker->open_for));
  if (max && *max < breaker->open_for) {
    const auto scope = reader.errors()->Key("maxOpenFor");
    reader.errors()->Add(absl::StrCat(
        Found(*json.Find("maxOpenFor")), " is less than openFor; write \"",
        FormatJsonDuration(breaker->open_for), "\" or more"));
  }
}

BreakerPolicy ReadBreaker(const JsonValue& json, ErrorList* errors) {
  BreakerPolicy breaker;
  const FieldReader reader(json, known_keys::kBreaker, errors);
  Assign(reader.Number("failureRate", kShare), &breaker.failure_rate);
  Assign(reader.Integer("minRequests", kCount), &breaker.min_requests);
  Assign(reader.Duration("window", kBreakerWindow), &breaker.window);
  Assign(reader.Integer("consecutiveFailures", kCount),
         &breaker.consecutive_failures);
  ReadOpenFor(json, reader, &breaker);
  Assign(reader.Integer("probes", kProbes), &breaker.probes);
  Assign(reader.StatusCodes("failureStatusCodes"), &breaker.failure_codes);
  return breaker;
}

// The name travels as a metadata value.
bool IsLayerName(absl::string_view name) {
  if (name.empty() || name.size() > RetryMarker::kLongestOwner) return false;
  if (name.front() == ' ' || name.back() == ' ') return false;
  return std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return absl::ascii_isprint(c); });
}

std::string ReadLayerName(const FieldReader& reader) {
  const std::optional<std::string> name = reader.String("layerName");
  if (!name || IsLayerName(*name)) return name.value_or("");
  const auto scope = reader.errors()->Key("layerName");
  reader.errors()->Add(
      absl::StrCat(Quoted(*name), " is no layer name; write 1 to ",
                   RetryMarker::kLongestOwner,
                   " printable ASCII characters, no space at either end"));
  return "";
}

}  // namespace

ChannelConfig ReadChannelConfig(const JsonValue& service_config,
                                ErrorList* errors, SourceEdits* for_core) {
  ChannelConfig config;
  const FieldReader top(service_config, errors);
  if (const JsonValue* json = top.Object("retryThrottling")) {
    const auto scope = errors->Key("retryThrottling");
    config.sets_guard = true;
    config.guard.throttle = ReadThrottle(*json, errors, for_core);
  }
  const JsonValue* json = top.Object("retryGuard");
  if (json == nullptr) return config;
  const auto scope = errors->Key("retryGuard");
  const FieldReader guard(*json, known_keys::kChannelGuard, errors);
  if (const JsonValue* budget = guard.Object("budget")) {
    const auto budget_scope = errors->Key("budget");
    config.sets_guard = true;
    config.guard.budget = ReadBudget(*budget, errors);
  }
  if (const JsonValue* breaker = guard.Object("breaker")) {
    const auto breaker_scope = errors->Key("breaker");
    config.sets_guard = true;
    config.guard.breaker = ReadBreaker(*breaker, errors);
  }
  config.layer_name = ReadLayerName(guard);
  return config;
}

}  // namespace retry_guard
