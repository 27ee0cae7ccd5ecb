// `classification`: what counts as which kind of end.

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "retry_guard/policy/decider.h"
#include "tests/conformance/calls.h"
#include "tests/conformance/kinds.h"

namespace retry_guard::conformance {
namespace {

using end2end::Style;

constexpr int kBucket = 100;

CallPlan ThrottledPlan() {
  CallPlan plan;
  FillRetryPolicy(&plan.config);
  plan.config.top["retryThrottling"] =
      absl::StrCat(R"({"maxTokens": )", kBucket, R"(, "tokenRatio": 0.5})");
  return plan;
}

// What one attempt does to the bucket, in thousandths.
int64_t EffectOf(const Reply& reply) {
  CallPlan plan = ThrottledPlan();
  plan.replies = {reply};
  CallRig rig(plan);
  rig.BurnThrottleTokens(10);
  const CallSeen seen = rig.Call(Style::kSync);
  if (seen.throttle.empty()) return 0;
  return seen.throttle[0] - (kBucket - 10) * 1000;
}

// `counts`: true, false, or "adds tokenRatio".
void CheckEvent(const std::string& event, const Json& counts, Report& report) {
  const int64_t expected = counts.IsString() ? 500
                           : counts.IsTrue() ? -1000
                                             : 0;
  Reply reply = Reply::Fail(grpc::StatusCode::UNAVAILABLE);
  if (absl::StartsWith(event, "retryable status")) {
  } else if (absl::StartsWith(event, "non-retryable status")) {
    reply.status = grpc::StatusCode::INVALID_ARGUMENT;
  } else if (absl::StrContains(event, "do-not-retry pushback")) {
    reply.status = grpc::StatusCode::INVALID_ARGUMENT;
    reply.trailers = {{"grpc-retry-pushback-ms", "-1"}};
  } else if (event == "success") {
    reply = Reply::Ok();
  } else if (event == "transparent retry") {
    reply = Reply::Refuse();
    if (expected == 0) {
      report.Diverges(Rule::kRefusedCostsToken);
      report.Equal(event, EffectOf(reply), -1000);
      return;
    }
  } else {
    report.NotApplicable(absl::StrCat("cases[].event ", event));
    return;
  }
  report.Equal(event, EffectOf(reply), expected);
}

void ReplayThrottleEvents(const Fields& scenario, Report& report) {
  std::vector<std::pair<std::string, const Json*>> cases;
  for (const Fields& fields : scenario.Objects("cases")) {
    const Json* const counts = fields.Whole("counts");
    const bool adds = counts != nullptr && counts->IsString() &&
                      std::string(counts->GetString()) == "adds tokenRatio";
    if (counts == nullptr || !(counts->IsBool() || adds)) {
      report.NotApplicable("cases[].counts");
    }
    cases.emplace_back(fields.Text("event").value_or(""), counts);
  }
  if (!scenario.AllRead()) return;
  for (const auto& [event, counts] : cases) {
    if (report.applicable()) CheckEvent(event, *counts, report);
  }
}

// Which ends of a call are failures for a breaker.
void ReplayBreakerOutcomes(const Fields& scenario, Report& report) {
  std::vector<std::pair<std::string, bool>> cases;
  for (const Fields& fields : scenario.Objects("cases")) {
    cases.emplace_back(fields.Text("outcome").value_or(""),
                       fields.Bool("failure").value_or(false));
  }
  if (!scenario.AllRead()) return;
  const BreakerPolicy policy;
  const auto fails = [&](absl::StatusCode code) {
    retry_guard::Outcome outcome;
    outcome.code = code;
    return BreakerResult(outcome, policy, false, false) ==
           CircuitBreaker::Result::kFailure;
  };
  for (const auto& [outcome, failure] : cases) {
    if (outcome == "result") {
      report.Equal(outcome, fails(absl::StatusCode::kOk), failure);
    } else if (outcome == "cancellation") {
      report.Equal(outcome, fails(absl::StatusCode::kCancelled), failure);
    } else if (outcome == "other exception") {
      report.Diverges(Rule::kListedCodesFail);
      report.Equal("UNAVAILABLE", fails(absl::StatusCode::kUnavailable), true);
      report.Equal("NOT_FOUND", fails(absl::StatusCode::kNotFound), false);
    } else {
      report.NotApplicable(absl::StrCat("cases[].outcome ", outcome));
    }
  }
}

}  // namespace

void ReplayClassification(const Table& /*table*/, const Fields& scenario,
                          Report& report) {
  const std::vector<Fields> cases = scenario.Objects("cases");
  if (!cases.empty() && cases[0].Has("counts")) {
    ReplayThrottleEvents(scenario, report);
    return;
  }
  if (!cases.empty() && cases[0].Has("outcome")) {
    ReplayBreakerOutcomes(scenario, report);
    return;
  }
  const Fields input = scenario.Object("input");
  if (input.Has("http_status") || input.Has("error")) {
    report.NotApplicable(
        "names of errors and HTTP statuses of another system; gRPC has codes");
  } else if (input.Has("failure")) {
    report.NotApplicable(
        "flags that failures of another system carry; a gRPC status has none");
  } else if (scenario.Object("expect").Has("peer_retry_sets")) {
    report.NotApplicable(
        "which codes other systems retry; ours are what the method lists");
  } else {
    report.NotApplicable("no replay knows this classification");
  }
}

}  // namespace retry_guard::conformance
