// `parse` of what a server says: pushback, RetryInfo, retry-after.

#include <grpcpp/support/status.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "retry_guard/call/retry_info.h"
#include "retry_guard/config/scalars.h"
#include "retry_guard/policy/classifier.h"
#include "retry_guard/policy/status_codes.h"
#include "retry_guard/rpc_status.pb.h"
#include "tests/conformance/hints.h"
#include "tests/conformance/kinds.h"

namespace retry_guard::conformance {
namespace {

constexpr absl::Duration kInitial = absl::Milliseconds(100);

bool AllDigits(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// What the wait that a delay hint makes of itself may be.
void CheckWait(const ServerHint& hint, Report& report) {
  const PushbackPolicy policy;
  if (ServerForbidsRetry(hint, policy)) return;
  for (const double unit : {0.0, 0.25, 0.999}) {
    const absl::Duration wait =
        HintedWait(hint, policy, kInitial, absl::ZeroDuration(), unit);
    if (hint.delay == absl::ZeroDuration()) {
      report.Within("wait", wait, absl::ZeroDuration(), kInitial);
    } else {
      report.Within("wait", wait, hint.delay, hint.delay * 1.2);
    }
  }
}

void ReplayPushback(const Fields& scenario, Report& report) {
  constexpr char kKey[] = "grpc-retry-pushback-ms";
  const Fields input = scenario.Object("input");
  std::vector<std::string> values;
  if (input.IsArray(kKey)) {
    values = input.Texts(kKey);
  } else if (const auto value = input.Text(kKey)) {
    values = {*value};
  }
  const Fields expect = scenario.Object("expect");
  // Where the text of the rule leaves it open, "retry" is a sentence.
  const bool open = expect.IsString("retry");
  if (open) expect.Note({"retry"});
  const auto retry = open ? std::nullopt : expect.Bool("retry");
  const auto delay = expect.Time("delay");
  const auto jitter = expect.Bool("jitter");
  if (!scenario.AllRead()) return;

  const ServerHint hint = ReadPushback(values);
  if (open) {
    report.Diverges(Rule::kCanonicalPushback);
    report.Check(hint.stop, "a pushback that is not canonical does not stop");
    return;
  }
  if (!retry.has_value()) {
    report.NotApplicable("expect.retry is missing");
    return;
  }
  const bool generous =
      values.size() == 1 &&
      AllDigits(std::string(absl::StripPrefix(values.front(), "+")));
  if (*retry && hint.stop && generous) {
    // "007", "+7": the peer's parser is generous.
    report.Diverges(Rule::kCanonicalPushback);
    report.Check(hint.stop, "");
    return;
  }
  report.Equal("retry", hint.present() && !hint.stop, *retry);
  if (!delay.has_value() || hint.stop) return;
  report.Near("delay", hint.delay, *delay);
  if (hint.delay == absl::ZeroDuration()) {
    report.Diverges(Rule::kHintZero);
  } else if (ServerForbidsRetry(hint, PushbackPolicy())) {
    report.Diverges(Rule::kMaxPushback);
  } else if (jitter == false) {
    report.Diverges(Rule::kHintJitter);
  }
  CheckWait(hint, report);
}

// `retry-after` in any of the forms that scenarios have. What a peer makes of
// the value is a delay, or nothing.
struct RetryAfterCase {
  std::string value;
  absl::Time now;
  std::optional<absl::Duration> expected;
  bool unix_time = false;  // the peer takes the number as a point in time
  bool ignored = false;    // by a switch, or for the HTTP status
  bool absent = false;     // no such header; perhaps one of another name
};

void CheckRetryAfter(const RetryAfterCase& one, Report& report) {
  if (one.absent) {
    if (one.expected.has_value()) report.Diverges(Rule::kOnlyRetryAfter);
    report.Check(!ReadServerHint({}, one.now).present(), "a hint from nothing");
    return;
  }
  const ServerHint hint = ReadRetryAfter(one.value, one.now);
  if (one.unix_time && AllDigits(one.value)) {
    report.Diverges(Rule::kRetryAfterIsSeconds);
    int64_t seconds = 0;
    if (absl::SimpleAtoi(one.value, &seconds)) {
      report.Near("delay", hint.delay, absl::Seconds(seconds));
    } else {
      report.Check(ServerForbidsRetry(hint, PushbackPolicy()),
                   "a number that is too large does not stop");
    }
    return;
  }
  const std::string stripped(absl::StripAsciiWhitespace(one.value));
  if (stripped != one.value) {
    if (one.expected.has_value()) report.Diverges(Rule::kBlanksAroundHint);
    report.Check(!hint.present(), "blanks were taken");
    return;
  }
  if (!hint.present()) {
    // A date in words of its own. A peer that finds no time left says nothing.
    const bool date =
        absl::StrContains(one.value, ":") && absl::StrContains(one.value, " ");
    if (date && one.expected.has_value()) {
      report.Diverges(Rule::kHttpDateForms);
      const bool imf =
          one.value.size() == 29 && absl::EndsWith(one.value, " GMT");
      report.Check(!imf, absl::StrCat("ignored: ", one.value));
      return;
    }
    report.Check(!one.expected.has_value(),
                 absl::StrCat("ignored: ", one.value));
    return;
  }
  if (!one.expected.has_value()) {
    const bool due = hint.delay == absl::ZeroDuration();
    if (one.ignored || due || !AllDigits(one.value)) {
      report.Diverges(due ? Rule::kHintZero : Rule::kHintsAlwaysRead);
      report.Check(!hint.stop, "a retry-after stops");
      CheckWait(hint, report);
    } else {
      report.Check(false, absl::StrCat("taken: ", one.value));
    }
    return;
  }
  report.Near("delay", hint.delay, *one.expected);
  if (ServerForbidsRetry(hint, PushbackPolicy())) return;
  CheckWait(hint, report);
}

// Null is a delay of nothing at all.
std::optional<absl::Duration> ExpectedDelay(const Fields& expect,
                                            Report& report) {
  int found = 0;
  std::optional<absl::Duration> delay;
  for (const char* const key :
       {"delay_ms", "delay_s", "seconds", "sleep_s", "sleep_ms"}) {
    if (!expect.Has(key)) continue;
    ++found;
    if (expect.IsNull(key)) continue;
    const auto number = expect.Number(key);
    if (!number.has_value()) continue;
    delay = absl::EndsWith(key, "_ms") ? absl::Milliseconds(*number)
                                       : absl::Seconds(*number);
  }
  if (expect.Has("error")) {
    ++found;
    expect.Note({"error"});
  }
  if (found != 1) report.NotApplicable("expect has no delay");
  return delay;
}

void ReplayRetryAfterValue(const Fields& scenario, Report& report) {
  const Fields input = scenario.Object("input");
  RetryAfterCase one;
  one.now = absl::FromUnixSeconds(1'000'000'000);
  if (const auto value = input.Text("retry_after")) {
    one.value = *value;
  } else if (input.IsObject("header")) {
    const Fields header = input.Object("header");
    const auto named = header.Text("retry-after");
    for (const std::string& key : header.Keys()) header.Note({key.c_str()});
    one.absent = !named.has_value();
    one.value = named.value_or("");
  } else if (input.Has("status")) {
    one.absent = true;
  } else {
    report.NotApplicable("no replay knows this hint");
    return;
  }
  if (const auto unix_now = input.Number("now_unix")) {
    one.now = absl::FromUnixSeconds(0) + absl::Seconds(*unix_now);
  }
  if (const auto text = input.Text("now")) {
    if (!absl::ParseTime(absl::RFC3339_full, *text, &one.now, nullptr)) {
      report.NotApplicable("input.now is no RFC 3339 time");
    }
  }
  if (const auto format = input.Text("format")) {
    one.unix_time = *format == "unix";
    if (!one.unix_time && *format != "seconds") {
      report.NotApplicable(absl::StrCat("input.format ", *format));
    }
  }
  if (input.Bool("respect_header") == false) one.ignored = true;
  if (const auto status = input.Int("status")) {
    // An HTTP status, by which some peers choose; ours sees none.
    if (*status != 429 && *status != 503) one.ignored = true;
  }
  one.expected = ExpectedDelay(scenario.Object("expect"), report);
  if (!scenario.AllRead()) return;
  CheckRetryAfter(one, report);
}

// google.rpc.RetryInfo as scenarios write it: "5s", 5 (seconds), {"seconds": 5,
// "nanos": 0}, {"retryDelay": "5s"}, {} or null. Nothing: not understood.
std::optional<std::string> DetailsOf(const Json& detail) {
  if (!detail.IsObject() || detail.MemberCount() != 1) return std::nullopt;
  const auto& member = *detail.MemberBegin();
  const std::string name = member.name.GetString();
  const Json& value = member.value;
  if (name != "RetryInfo") return DetailsWithErrorInfo();
  if (value.IsNull()) return DetailsWithEmptyRetryInfo();
  if (value.IsString()) {
    const auto delay = ParseJsonDuration(value.GetString());
    if (!delay.has_value()) return std::nullopt;
    return DetailsWithRetryInfo(*delay);
  }
  if (!value.IsObject()) return std::nullopt;
  if (value.ObjectEmpty()) return DetailsWithEmptyRetryInfo();
  int64_t seconds = 0;
  int32_t nanos = 0;
  for (const auto& field : value.GetObject()) {
    const std::string key = field.name.GetString();
    if (key == "seconds" && field.value.IsInt64()) {
      seconds = field.value.GetInt64();
    } else if (key == "nanos" && field.value.IsInt()) {
      nanos = field.value.GetInt();
    } else if ((key == "retryDelay" || key == "retry_delay") &&
               field.value.IsString()) {
      const auto delay = ParseJsonDuration(field.value.GetString());
      if (!delay.has_value()) return std::nullopt;
      return DetailsWithRetryInfo(*delay);
    } else if ((key == "retry_delay_ms" || key == "delay_ms") &&
               field.value.IsNumber()) {
      return DetailsWithRetryInfo(absl::Milliseconds(field.value.GetDouble()));
    } else {
      return std::nullopt;
    }
  }
  return DetailsWithRetryInfo(seconds, nanos);
}

// What ours makes of a status with that hint; nothing listed, nothing known of
// the method but a retryPolicy with UNAVAILABLE.
bool Retried(absl::StatusCode code, const ServerHint& hint) {
  MethodPolicy policy;
  policy.has_retry_policy = true;
  Outcome outcome;
  outcome.code = code;
  outcome.hint = hint;
  return IsRetryable(outcome, policy, /*key_travels=*/false) &&
         IsSafe(outcome, policy, Repeat::kUnknown) &&
         !ServerForbidsRetry(hint, policy.pushback);
}

void CheckRetryable(absl::StatusCode code, const ServerHint& hint,
                    bool expected, bool has_reason, Report& report) {
  const bool ours = Retried(code, hint);
  if (ours == expected) {
    report.Equal("retryable", ours, expected);
  } else if (expected && ServerForbidsRetry(hint, PushbackPolicy())) {
    report.Diverges(Rule::kMaxPushback);
    report.Equal("retryable", ours, false);
  } else if (expected && code == absl::StatusCode::kResourceExhausted) {
    report.Diverges(Rule::kResourceExhausted);
    report.Check(!hint.consent(), "the server's consent does not count");
  } else if (!expected && has_reason) {
    report.Diverges(Rule::kOnlyTheDetails);
    report.Equal("retryable", ours, true);
  } else {
    report.Equal("retryable", ours, expected);
  }
}

void ReplayDetails(const Fields& scenario, Report& report) {
  const Fields input = scenario.Object("input");
  const std::string name = input.Text("status").value_or("RESOURCE_EXHAUSTED");
  const auto code = StatusCodeFromName(name);
  std::string details;
  if (const Json* const list = input.Whole("details")) {
    // Several Any in one google.rpc.Status are the bytes one after the other.
    for (const Json& detail : list->GetArray()) {
      const auto bytes = DetailsOf(detail);
      if (!bytes.has_value()) {
        report.NotApplicable(absl::StrCat("input.details[]: ", ToText(detail)));
        return;
      }
      details += *bytes;
    }
  }
  const Fields expect = scenario.Object("expect");
  const bool expects_delay = expect.Has("delay_ms") || expect.Has("delay_s");
  const auto delay = expects_delay ? ExpectedDelay(expect, report)
                                   : std::optional<absl::Duration>();
  const auto retryable = expect.Bool("retryable");
  if (!code.has_value()) {
    report.NotApplicable(absl::StrCat("input.status ", name));
  } else if (retryable.has_value() &&
             *code != absl::StatusCode::kResourceExhausted &&
             *code != absl::StatusCode::kUnavailable) {
    report.NotApplicable("the list of codes is the peer's own");
  }
  if (!scenario.AllRead()) return;

  const ServerHint hint = ReadDetails(details);
  if (expects_delay) {
    if (delay.has_value() && *delay <= absl::ZeroDuration() &&
        !hint.present()) {
      report.Diverges(Rule::kNegativeRetryInfo);
      report.Check(!hint.present(), "a negative delay was taken");
    } else if (report.Equal("has a delay", hint.present(), delay.has_value()) &&
               delay.has_value()) {
      report.Near("delay", hint.delay, *delay);
      CheckWait(hint, report);
    }
  }
  if (retryable.has_value()) {
    CheckRetryable(*code, hint, *retryable, /*has_reason=*/false, report);
  }
}

// A RetryInfo from a number of seconds, written and read.
void ReplaySeconds(const Fields& scenario, Report& report) {
  const Fields input = scenario.Object("input");
  double seconds = 0;
  if (input.IsString("seconds")) {
    const std::string text = *input.Text("seconds");
    if (text != "2^64-1" && text != "2^63-1") {
      report.NotApplicable(absl::StrCat("input.seconds ", text));
    }
    seconds = text == "2^64-1" ? 18446744073709551615.0 : 9223372036854775807.0;
  } else {
    seconds = input.Number("seconds").value_or(0);
  }
  const auto nanos = static_cast<int32_t>(input.Int("nanos").value_or(0));
  const Fields expect = scenario.Object("expect");
  const auto expected_seconds = expect.Int("seconds");
  const auto expected_nanos = expect.Int("nanos");
  const auto type_url = expect.Text("type_url");
  std::string bytes;
  for (const double byte : expect.Numbers("bytes")) {
    bytes.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
  }
  if (!scenario.AllRead()) return;
  if (!expected_seconds.has_value()) {
    report.NotApplicable("expect.seconds is missing");
    return;
  }
  if (seconds < 0 || nanos < 0) {
    report.Diverges(Rule::kNegativeRetryInfo);
    const ServerHint hint =
        ReadDetails(DetailsWithRetryInfo(static_cast<int64_t>(seconds), nanos));
    report.Check(!hint.present(), "a negative delay was taken");
    return;
  }
  const grpc::Status status = internal::WithRetryInfo(
      grpc::StatusCode::RESOURCE_EXHAUSTED, "",
      absl::Seconds(seconds) + absl::Nanoseconds(nanos));
  wire::RpcStatus written;
  if (!report.Check(written.ParseFromString(status.error_details()) &&
                        written.details_size() == 1,
                    "no details were written")) {
    return;
  }
  if (type_url.has_value()) {
    report.Equal("type_url", written.details(0).type_url(), *type_url);
  }
  if (!bytes.empty()) {
    report.Check(written.details(0).value() == bytes, "other bytes");
  }
  const ServerHint hint = ReadDetails(status.error_details());
  report.Check(hint.present(), "what was written is not read");
  report.Near("delay", hint.delay,
              absl::Seconds(*expected_seconds) +
                  absl::Nanoseconds(expected_nanos.value_or(0)));
}

// The JSON form of an error as HTTP clients of Google's services see it.
void ReplayHttpError(const Fields& scenario, Report& report) {
  const Fields input = scenario.Object("input");
  const auto http = input.Int("code");
  const auto text = input.Text("retryDelay");
  const auto in_words = input.Text("message_hint");
  const bool has_reason = input.Text("reason").has_value();
  const Fields expect = scenario.Object("expect");
  const auto retryable = expect.Bool("retryable");
  const bool expects_delay = expect.Has("delay_ms");
  const auto delay = expects_delay ? ExpectedDelay(expect, report)
                                   : std::optional<absl::Duration>();
  std::optional<absl::Duration> told;
  if (text.has_value()) {
    told = ParseJsonDuration(*text);
    if (!told.has_value()) {
      report.NotApplicable("input.retryDelay is no protobuf duration");
    }
  }
  if (http != 429 && http != 503) {
    report.NotApplicable("input.code is neither 429 nor 503");
  }
  if (!scenario.AllRead()) return;
  const absl::StatusCode code = *http == 429
                                    ? absl::StatusCode::kResourceExhausted
                                    : absl::StatusCode::kUnavailable;
  const ServerHint hint = told.has_value()
                              ? ReadDetails(DetailsWithRetryInfo(*told))
                              : ServerHint();
  if (expects_delay) {
    if (!told.has_value() && delay.has_value() && in_words.has_value()) {
      report.Diverges(Rule::kOnlyTheDetails);
      report.Check(!hint.present(), "a text was read");
    } else if (report.Equal("has a delay", hint.present(), delay.has_value()) &&
               delay.has_value()) {
      report.Near("delay", hint.delay, *delay);
    }
  }
  if (retryable.has_value()) {
    CheckRetryable(code, hint, *retryable, has_reason, report);
  }
}

}  // namespace

void ReplayHint(const Table& /*table*/, const Fields& scenario,
                Report& report) {
  const Fields input = scenario.Object("input");
  if (input.Has("grpc-retry-pushback-ms")) {
    ReplayPushback(scenario, report);
  } else if (input.Has("details")) {
    ReplayDetails(scenario, report);
  } else if (input.Has("retryDelay") || input.Has("message_hint")) {
    ReplayHttpError(scenario, report);
  } else if (input.Has("seconds")) {
    ReplaySeconds(scenario, report);
  } else {
    ReplayRetryAfterValue(scenario, report);
  }
}

// A delay that a server asks for, next to the one that we computed.
void ReplayRetryAfter(const Table& /*table*/, const Fields& scenario,
                      Report& report) {
  const Fields config = scenario.Object("config");
  const auto computed = config.Time("computed");
  config.Note({"model"});
  const auto told = scenario.Object("input").Time("retry_after");
  const auto expected = scenario.Object("expect").Time("delay");
  if (!scenario.AllRead()) return;
  if (!told.has_value() || !expected.has_value()) {
    report.NotApplicable("no delay to check");
    return;
  }
  // In milliseconds: as RetryInfo, since retry-after counts seconds.
  const ServerHint hint = ReadDetails(DetailsWithRetryInfo(*told));
  report.Near("hint", hint.delay, *told);
  const absl::Duration own = computed.value_or(absl::ZeroDuration());
  const absl::Duration wait =
      HintedWait(hint, PushbackPolicy(), kInitial, own, 0);
  if (*expected < *told) {
    report.Diverges(Rule::kNoHintClamp);
    report.Near("wait", wait, std::max(*told, own));
  } else {
    report.Near("wait", wait, *expected);
  }
  if (wait == *told && *told > own) {
    report.Diverges(Rule::kHintJitter);
    CheckWait(hint, report);
  }
}

}  // namespace retry_guard::conformance
