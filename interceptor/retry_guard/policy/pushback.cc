#include "retry_guard/policy/pushback.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/time/civil_time.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/unknown_field_set.h"
#include "retry_guard/policy/absl_view.h"
#include "retry_guard/rpc_status.pb.h"

namespace retry_guard {
namespace {

// The largest google.protobuf.Duration, about 10,000 years.
constexpr int64_t kMaxSeconds = 315576000000;

bool AllDigits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

ServerHint Stop() {
  ServerHint hint;
  hint.source = ServerHint::Source::kPushback;
  hint.stop = true;
  return hint;
}

ServerHint Delay(ServerHint::Source source, absl::Duration delay) {
  ServerHint hint;
  hint.source = source;
  hint.delay = delay;
  return hint;
}

ServerHint ParsePushback(std::string_view text) {
  // Canonical only. SimpleAtoi alone would take "+5", " 5" and "05".
  const bool canonical = AllDigits(text) && (text == "0" || text[0] != '0');
  int32_t millis = 0;
  if (!canonical || !absl::SimpleAtoi(AbslView(text), &millis)) return Stop();
  return Delay(ServerHint::Source::kPushback, absl::Milliseconds(millis));
}

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

// The fields of a message, unread. Not the generated RpcStatus: a parser of
// proto3 refuses, and complains on stderr about, each string that is not UTF-8,
// and a peer may send any bytes as its message.
void ReadFields(std::string_view bytes, UnknownFieldSet& fields) {
  const bool ok =
      bytes.size() <= std::numeric_limits<int>::max() &&
      fields.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  if (!ok) fields.Clear();
}

// The strings and messages of number `number` among them.
std::vector<std::string_view> Values(const UnknownFieldSet& fields,
                                     int number) {
  std::vector<std::string_view> values;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() == number &&
        field.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
      values.push_back(field.length_delimited());
    }
  }
  return values;
}

std::optional<absl::Duration> RetryDelay(std::string_view retry_info) {
  wire::RetryInfo info;
  if (!info.ParseFromArray(retry_info.data(),
                           static_cast<int>(retry_info.size())) ||
      !info.has_retry_delay()) {
    return std::nullopt;
  }
  const int64_t seconds = info.retry_delay().seconds();
  const int32_t nanos = info.retry_delay().nanos();
  if (seconds < 0 || seconds > kMaxSeconds || nanos < 0 || nanos > 999999999) {
    return std::nullopt;
  }
  return absl::Seconds(seconds) + absl::Nanoseconds(nanos);
}

// The first valid RetryInfo among the details of a google.rpc.Status.
std::optional<absl::Duration> ParseRetryInfo(std::string_view status_details) {
  UnknownFieldSet status;
  ReadFields(status_details, status);
  for (std::string_view detail :
       Values(status, wire::RpcStatus::kDetailsFieldNumber)) {
    UnknownFieldSet any;
    ReadFields(detail, any);
    const auto urls = Values(any, google::protobuf::Any::kTypeUrlFieldNumber);
    const auto values = Values(any, google::protobuf::Any::kValueFieldNumber);
    if (urls.empty() || values.empty() ||
        !absl::EndsWith(AbslView(urls.back()), "/google.rpc.RetryInfo")) {
      continue;
    }
    if (auto delay = RetryDelay(values.back())) return delay;
  }
  return std::nullopt;
}

std::optional<absl::Time> Parse(std::string_view format,
                                std::string_view text) {
  absl::Time time;
  if (!absl::ParseTime(AbslView(format), AbslView(text), &time, nullptr)) {
    return std::nullopt;
  }
  return time;
}

// RFC 9110 5.6.7: a two-digit year that appears to be more than 50 years ahead
// is the most recent one of the past with these digits.
absl::Time ResolveCentury(absl::Time parsed, absl::Time wall_now) {
  const absl::TimeZone utc = absl::UTCTimeZone();
  const absl::CivilSecond now = absl::ToCivilSecond(wall_now, utc);
  const absl::CivilSecond limit(now.year() + 50, now.month(), now.day(),
                                now.hour(), now.minute(), now.second());
  const absl::CivilSecond date = absl::ToCivilSecond(parsed, utc);
  absl::civil_year_t year =
      now.year() - now.year() % 100 + 100 + date.year() % 100;
  auto at = [&date](absl::civil_year_t y) {
    return absl::CivilSecond(y, date.month(), date.day(), date.hour(),
                             date.minute(), date.second());
  };
  while (at(year) > limit) year -= 100;
  return absl::FromCivil(at(year), utc);
}

std::optional<absl::Time> ParseHttpDate(std::string_view text,
                                        absl::Time wall_now) {
  // ParseTime is generous with blanks, signs and the number of digits; the
  // lengths of the three forms are not. "Sun, 06 Nov 1994 08:49:37 GMT":
  if (text.size() == 29) {
    if (auto time = Parse("%a, %d %b %Y %H:%M:%S GMT", text)) return time;
  }
  // asctime: "Sun Nov  6 08:49:37 1994"
  if (text.size() == 24) return Parse("%a %b %e %H:%M:%S %Y", text);
  // RFC 850: "Sunday, 06-Nov-94 08:49:37 GMT"
  if (text.size() >= 30 && text.size() <= 33) {
    if (auto time = Parse("%A, %d-%b-%y %H:%M:%S GMT", text)) {
      return ResolveCentury(*time, wall_now);
    }
  }
  return std::nullopt;
}

std::optional<absl::Duration> ParseRetryAfter(std::string_view text,
                                              absl::Time wall_now) {
  const absl::Duration longest = absl::Seconds(kMaxSeconds);
  if (AllDigits(text)) {
    int64_t seconds = 0;
    const bool fits = absl::SimpleAtoi(AbslView(text), &seconds);
    if (!fits) return longest;
    return std::min(absl::Seconds(seconds), longest);
  }
  const std::optional<absl::Time> date = ParseHttpDate(text, wall_now);
  if (!date.has_value()) return std::nullopt;
  return std::clamp(*date - wall_now, absl::ZeroDuration(), longest);
}

}  // namespace

ServerHint ReadServerHint(const HintSources& sources, absl::Time wall_now) {
  if (!sources.pushback_ms.empty()) {
    if (sources.pushback_ms.size() > 1) return Stop();
    return ParsePushback(sources.pushback_ms[0]);
  }
  if (auto delay = ParseRetryInfo(sources.status_details)) {
    return Delay(ServerHint::Source::kRetryInfo, *delay);
  }
  if (sources.retry_after.has_value()) {
    if (auto delay = ParseRetryAfter(*sources.retry_after, wall_now)) {
      return Delay(ServerHint::Source::kRetryAfter, *delay);
    }
  }
  return {};
}

bool ServerForbidsRetry(const ServerHint& hint, const PushbackPolicy& policy) {
  return hint.present() && (hint.stop || hint.delay > policy.max_wait);
}

absl::Duration HintedWait(const ServerHint& hint, const PushbackPolicy& policy,
                          absl::Duration initial_backoff,
                          absl::Duration own_backoff, double unit) {
  // Duration's arithmetic saturates at infinity.
  const absl::Duration wait = hint.delay == absl::ZeroDuration()
                                  ? initial_backoff * unit
                                  : hint.delay * (1 + policy.jitter * unit);
  if (hint.source == ServerHint::Source::kPushback) return wait;
  return std::max(wait, own_backoff);
}

}  // namespace retry_guard
