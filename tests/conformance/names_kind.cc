// Conditions and limits as xDS and Envoy spell them, as far as they come down
// to a retryPolicy.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "retry_guard/policy/status_codes.h"
#include "tests/conformance/calls.h"
#include "tests/conformance/config_text.h"
#include "tests/conformance/kinds.h"

namespace retry_guard::conformance {
namespace {

// xDS counts retries, gRPC attempts.
void ReplayNumRetries(const Fields& scenario, Report& report) {
  const auto retries = scenario.Object("input").Int("num_retries");
  const auto attempts = scenario.Object("expect").Int("maxAttempts");
  if (!scenario.AllRead()) return;
  if (!retries.has_value() || !attempts.has_value()) {
    report.NotApplicable("a default of xDS; a retryPolicy has none");
    return;
  }
  CallPlan plan;
  plan.config.retry_policy["maxAttempts"] =
      absl::StrCat(std::min<int64_t>(*attempts, 5));
  plan.config.method_guard["maxAttempts"] = absl::StrCat(*attempts);
  FillRetryPolicy(&plan.config);
  plan.replies = {Reply::Fail(grpc::StatusCode::UNAVAILABLE)};
  if (ParseOrSkip(plan.config, report) == nullptr) return;
  const CallSeen seen = MakeCall(plan, end2end::Style::kSync);
  report.Equal("retries", seen.snapshot.retries, *retries);
}

void ReplayIntervals(const Fields& scenario, Report& report) {
  const Fields input = scenario.Object("input");
  const Fields expect = scenario.Object("expect");
  const auto base = input.Time("base_interval");
  const auto top = input.Time("max_interval");
  const auto initial = expect.Time("initial");
  const auto max = expect.Time("max");
  if (!scenario.AllRead()) return;
  if (!base.has_value() || !top.has_value()) {
    report.NotApplicable("a default of xDS; a retryPolicy has none");
    return;
  }
  ConfigText config;
  config.retry_policy["initialBackoff"] = QuoteDuration(*base);
  config.retry_policy["maxBackoff"] = QuoteDuration(*top);
  FillRetryPolicy(&config);
  const auto parsed = ParseOrSkip(config, report);
  if (parsed == nullptr) return;
  const BackoffPolicy& backoff = parsed->ForMethod("/a.B/C").backoff;
  if (initial.has_value()) report.Near("initial", backoff.initial, *initial);
  if (max.has_value()) report.Near("max", backoff.max, *max);
}

}  // namespace

void ReplayConditions(const Fields& scenario, const char* key, Report& report) {
  const auto list = scenario.Object("input").Text(key);
  const Fields expect = scenario.Object("expect");
  const std::vector<std::string> expected = expect.Texts("codes");
  expect.Note({"all_known"});
  if (!scenario.AllRead()) return;
  if (!list.has_value()) {
    report.NotApplicable(absl::StrCat("input.", key, " is missing"));
    return;
  }
  // The list is the peer's; a name in it is spelt with "-".
  std::vector<std::string> names;
  for (absl::string_view name : absl::StrSplit(*list, ',')) {
    names.push_back(
        absl::StrReplaceAll(absl::StripAsciiWhitespace(name), {{"-", "_"}}));
  }
  const auto parse = [](const std::vector<std::string>& codes) {
    ConfigText config;
    config.retry_policy["retryableStatusCodes"] = absl::StrCat(
        "[",
        absl::StrJoin(codes, ", ",
                      [](std::string* out, const std::string& name) {
                        absl::StrAppend(out, Quote(name));
                      }),
        "]");
    FillRetryPolicy(&config);
    return ParseServiceConfig(config.ToJson());
  };

  // Exactly the names that the peer leaves out are wrong for ours.
  std::vector<std::string> unknown;
  std::vector<std::string> known;
  for (const std::string& name : names) {
    const bool is_expected =
        std::find(expected.begin(), expected.end(),
                  absl::AsciiStrToUpper(name)) != expected.end();
    (is_expected ? known : unknown).push_back(name);
  }
  report.Equal("known names", known.size(), expected.size());
  const auto whole = parse(names);
  report.Equal("names refused", ErrorLines(whole.status()).size(),
               unknown.size());
  if (!unknown.empty()) report.Diverges(Rule::kUnknownNames);

  if (expected.empty()) return;
  StatusCodeSet codes;
  for (const std::string& name : expected) {
    codes.Add(StatusCodeFromName(name).value_or(absl::StatusCode::kOk));
  }
  const auto parsed = parse(known);
  report.Check(
      parsed.ok() && (*parsed)->ForMethod("/a.B/C").retryable_codes == codes,
      "the known names give other codes");
}

void ReplayMapping(const Table& /*table*/, const Fields& scenario,
                   Report& report) {
  const Fields input = scenario.Object("input");
  if (input.Has("num_retries")) {
    ReplayNumRetries(scenario, report);
  } else if (input.Has("base_interval_ms") || input.Has("max_interval_ms")) {
    ReplayIntervals(scenario, report);
  } else if (input.Has("retry_on")) {
    ReplayConditions(scenario, "retry_on", report);
  } else if (input.Has("http")) {
    report.NotApplicable("gRPC core maps HTTP statuses, below an interceptor");
  } else if (input.Has("case")) {
    ReplayGeneratedStatus(scenario, report);
  } else {
    report.NotApplicable("no replay knows this mapping");
  }
}

}  // namespace retry_guard::conformance
