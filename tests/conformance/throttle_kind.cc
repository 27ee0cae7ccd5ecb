// The token bucket of gRFC A6: its arithmetic, and what calls do to it.

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "retry_guard/policy/retry_budget.h"
#include "retry_guard/policy/status_codes.h"
#include "tests/conformance/calls.h"
#include "tests/conformance/config_text.h"
#include "tests/conformance/kinds.h"

namespace retry_guard::conformance {
namespace {

using end2end::Style;

int64_t Milli(double tokens) { return std::llround(tokens * 1000); }

std::optional<ThrottlePolicy> ParseThrottle(double max_tokens, double ratio,
                                            Report& report) {
  ConfigText config;
  config.top["retryThrottling"] = absl::StrCat(
      R"({"maxTokens": )", max_tokens, R"(, "tokenRatio": )", ratio, "}");
  const auto parsed = ParseOrSkip(config, report);
  return parsed == nullptr ? std::nullopt : parsed->guard().throttle;
}

// A bucket, with a budget that never refuses around it.
std::unique_ptr<RetryBudget> Bucket(const ThrottlePolicy& throttle) {
  BudgetPolicy budget;
  budget.min_retries = 100000;
  return std::make_unique<RetryBudget>(budget, throttle);
}

void CountEvent(RetryBudget& bucket, const std::string& op) {
  if (op == "failure") bucket.CountFailure();
  if (op == "success") bucket.CountSuccess();
}

bool Allows(RetryBudget& bucket) {
  return bucket.Take(absl::UnixEpoch()).has_value();
}

// What a call's first attempt ends with, and whether a retry follows.
struct FirstDecision {
  bool retry = false;
  int64_t milli_tokens = 0;  // right after it
};

FirstDecision DecideFirst(const CallPlan& plan, int burnt) {
  CallRig rig(plan);
  rig.BurnThrottleTokens(burnt);
  const CallSeen seen = rig.Call(Style::kSync);
  FirstDecision first;
  if (seen.decisions.empty() || seen.throttle.empty()) return first;
  first.retry = seen.decisions[0].verdict == Verdict::kRetry;
  first.milli_tokens = seen.throttle[0];
  return first;
}

CallPlan PlanWithThrottle(const std::string& throttle) {
  CallPlan plan;
  FillRetryPolicy(&plan.config);
  plan.config.top["retryThrottling"] = throttle;
  return plan;
}

void ReplayReplacement(const Fields& scenario, Report& report) {
  const Fields config = scenario.Object("config");
  const auto ratio = [](const Fields& fields) {
    return fields.Number("tokenRatio").value_or(1);
  };
  const Fields before = config.Object("old");
  const Fields after = config.Object("new");
  struct Case {
    double old_tokens;
    double new_tokens;
  };
  std::vector<Case> cases;
  for (const Fields& fields : scenario.Objects("cases")) {
    cases.push_back({fields.Number("old_tokens").value_or(0),
                     fields.Number("new_tokens").value_or(0)});
  }
  const double old_max = before.Number("maxTokens").value_or(0);
  const auto old_policy = ParseThrottle(old_max, ratio(before), report);
  const auto new_policy = ParseThrottle(after.Number("maxTokens").value_or(0),
                                        ratio(after), report);
  if (!scenario.AllRead()) return;
  for (const Case& one : cases) {
    const auto bucket = Bucket(*old_policy);
    // Down by whole tokens, up by the ratio.
    for (double t = old_max; t - 1 >= one.old_tokens; --t) {
      bucket->CountFailure();
    }
    if (bucket->ThrottleMilliTokens() != Milli(one.old_tokens)) {
      report.NotApplicable(absl::StrCat("no way to ", one.old_tokens,
                                        " tokens by failures alone"));
      return;
    }
    BudgetPolicy budget;
    budget.min_retries = 100000;
    bucket->Reconfigure(budget, new_policy, absl::UnixEpoch());
    report.Equal(absl::StrCat("from ", one.old_tokens),
                 *bucket->ThrottleMilliTokens(), Milli(one.new_tokens));
  }
}

}  // namespace

void ReplayThrottleSequence(const Table& /*table*/, const Fields& scenario,
                            Report& report) {
  const Fields config = scenario.Object("config");
  if (config.Has("old")) {
    ReplayReplacement(scenario, report);
    return;
  }
  const double max = config.Number("maxTokens").value_or(0);
  const double ratio = config.Number("tokenRatio").value_or(0);
  const auto threshold = config.Number("threshold");
  if (threshold.has_value() && *threshold != max / 2) {
    report.NotApplicable("config.threshold is not half of maxTokens");
  }
  struct Step {
    std::string op;
    std::optional<double> tokens;
    std::optional<bool> allowed;
  };
  std::vector<Step> steps;
  for (const Fields& fields : scenario.Objects("steps")) {
    Step step;
    step.op = fields.Text("op").value_or("");
    step.tokens = fields.Number("tokens_after");
    step.allowed = fields.Bool("retry_allowed");
    if (const auto above = fields.Bool("above_threshold")) step.allowed = above;
    if (step.op != "failure" && step.op != "success") {
      report.NotApplicable(absl::StrCat("steps[].op ", step.op));
    }
    steps.push_back(step);
  }
  const auto policy = ParseThrottle(max, ratio, report);
  if (!scenario.AllRead()) return;
  const auto bucket = Bucket(*policy);
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const std::string what = absl::StrCat("step ", i + 1, " ", step.op);
    CountEvent(*bucket, step.op);
    if (step.tokens.has_value()) {
      report.Equal(what, *bucket->ThrottleMilliTokens(), Milli(*step.tokens));
    }
    if (step.allowed.has_value()) {
      report.Equal(what + ", retry allowed", Allows(*bucket), *step.allowed);
    }
  }
}

// A smithy bucket without prices is one of A6.
void ReplayTokenBucket(const Table& /*table*/, const Fields& scenario,
                       Report& report) {
  const Fields config = scenario.Object("config");
  const auto capacity = config.Number("capacity");
  const auto reward = config.Number("success_reward");
  const auto successes = config.Int("successes");
  const auto given = scenario.Text("given");
  const Fields expect = scenario.Object("expect");
  const std::vector<double> after = expect.Numbers("available_after_successes");
  const auto available = expect.Number("available");
  if (!capacity.has_value() || !reward.has_value()) {
    report.NotApplicable(
        "a bucket of other parts than a capacity and a reward for success");
    return;
  }
  const bool empty = given == "bucket empty" || given == "empty";
  if (given.has_value() && !empty) {
    report.NotApplicable(absl::StrCat("given: ", *given));
  }
  const auto policy = ParseThrottle(*capacity, *reward, report);
  if (!scenario.AllRead()) return;
  const auto bucket = Bucket(*policy);
  if (empty) {
    for (int i = 0; i < *capacity; ++i) bucket->CountFailure();
  }
  const auto whole_tokens = [&] {
    return *bucket->ThrottleMilliTokens() / 1000;
  };
  for (const double expected : after) {
    bucket->CountSuccess();
    report.Equal("whole tokens", whole_tokens(),
                 static_cast<int64_t>(expected));
  }
  for (int i = 0; i < successes.value_or(0); ++i) bucket->CountSuccess();
  if (available.has_value()) {
    report.Equal("whole tokens", whole_tokens(),
                 static_cast<int64_t>(*available));
  }
}

void ReplayThrottleDecision(const Table& /*table*/, const Fields& scenario,
                            Report& report) {
  const Fields config = scenario.Object("config");
  const double max = config.Number("maxTokens").value_or(0);
  const double ratio = config.Number("tokenRatio").value_or(0);
  // "...: tokens 3" or "tokens 1".
  const std::string given = scenario.Text("given").value_or("");
  double tokens = max;
  const size_t at = given.rfind("tokens ");
  if (!given.empty() && (at == std::string::npos ||
                         !absl::SimpleAtod(given.substr(at + 7), &tokens))) {
    report.NotApplicable(absl::StrCat("given: ", given));
  }
  const Fields input = scenario.Object("input");
  const auto status = input.Text("status");
  const auto event = input.Text("event");
  std::string pushback;
  if (input.IsNumber("pushback_ms")) {
    pushback = absl::StrCat(*input.Int("pushback_ms"));
  } else if (!input.IsNull("pushback_ms")) {
    pushback = input.Text("pushback_ms").value_or("");
  }
  if (input.IsNumber("pushback")) {
    pushback = absl::StrCat(*input.Int("pushback"));
  } else if (const auto word = input.Text("pushback")) {
    if (*word == "negative" || *word == "stop") pushback = "-1";
    if (*word == "positive") pushback = "1";
    int64_t number = 0;
    if (absl::SimpleAtoi(*word, &number)) pushback = *word;
    if (pushback.empty() && *word != "none") {
      report.NotApplicable(absl::StrCat("input.pushback ", *word));
    }
  }
  const Fields expect = scenario.Object("expect");
  const auto retry = expect.Bool("retry");
  const auto tokens_after = expect.Number("tokens_after");
  const auto above = expect.Bool("above_threshold");
  const auto committed = expect.Bool("committed");
  const Fields next = expect.Object("after_one_more_success");
  const auto next_tokens = next.Number("tokens");
  const auto next_above = next.Bool("above_threshold");
  const auto policy = ParseThrottle(max, ratio, report);
  const bool headers = event == "headers received";
  if (event.has_value() && !headers) {
    report.NotApplicable(absl::StrCat("input.event ", *event));
  }
  if (!event.has_value() && status != "retryable" &&
      status != "non-retryable") {
    report.NotApplicable("input.status is neither of the two words");
  }
  const int burnt = static_cast<int>(std::llround(max - tokens));
  if (burnt != max - tokens) report.NotApplicable("given: a part of a token");
  if (!scenario.AllRead()) return;

  CallPlan plan = PlanWithThrottle(absl::StrCat(
      R"({"maxTokens": )", max, R"(, "tokenRatio": )", ratio, "}"));
  if (!headers) {
    Reply reply =
        Reply::Fail(status == "retryable" ? grpc::StatusCode::UNAVAILABLE
                                          : grpc::StatusCode::INVALID_ARGUMENT);
    if (!pushback.empty()) {
      reply.trailers.emplace("grpc-retry-pushback-ms", pushback);
    }
    plan.replies = {reply};
    const FirstDecision first = DecideFirst(plan, burnt);
    if (retry.has_value()) report.Equal("retry", first.retry, *retry);
    if (tokens_after.has_value()) {
      report.Equal("tokens after", first.milli_tokens, Milli(*tokens_after));
    }
    return;
  }

  // Ours counts the end of the attempt, not its headers: then it is a success
  // or a failure for certain.
  report.Diverges(Rule::kSuccessIsOk);
  const FirstDecision ok = DecideFirst(plan, burnt);
  if (tokens_after.has_value()) {
    report.Equal("tokens after OK", ok.milli_tokens, Milli(*tokens_after));
  }
  Reply then_fails = Reply::Fail(grpc::StatusCode::UNAVAILABLE);
  then_fails.headers = true;
  plan.replies = {then_fails};
  report.Equal("tokens after headers and a failure",
               DecideFirst(plan, burnt).milli_tokens,
               Milli(std::max(tokens - 1, 0.0)));
  if (committed.has_value()) report.Equal("committed", *committed, true);

  const auto bucket = Bucket(*policy);
  for (int i = 0; i < burnt; ++i) bucket->CountFailure();
  bucket->CountSuccess();
  if (above.has_value()) {
    report.Equal("above threshold", Allows(*bucket), *above);
  }
  bucket->CountSuccess();
  if (next_tokens.has_value()) {
    report.Equal("tokens after one more", *bucket->ThrottleMilliTokens(),
                 Milli(*next_tokens));
  }
  if (next_above.has_value()) {
    report.Equal("above threshold after one more", Allows(*bucket),
                 *next_above);
  }
}

void ReplayThrottleCalls(const Table& /*table*/, const Fields& scenario,
                         Report& report) {
  const Fields config = scenario.Object("config");
  CallPlan plan;
  if (const Json* const policy = config.Whole("retryPolicy")) {
    plan.config.retry_policy = MembersOf(*policy);
  }
  if (const Json* const throttle = config.Whole("retryThrottling")) {
    plan.config.top["retryThrottling"] = ToText(*throttle);
  }
  const std::vector<double> ok = scenario.Numbers("server_ok_indexes");
  struct ExpectedCall {
    std::optional<int64_t> attempts;
    std::optional<std::string> status;
    std::optional<int64_t> last_index;
    std::optional<double> tokens;
  };
  std::vector<ExpectedCall> calls;
  int64_t last = 0;
  for (const Fields& fields : scenario.Objects("calls")) {
    ExpectedCall call;
    call.attempts = fields.Int("attempts");
    call.status = fields.Text("final_status");
    call.last_index = fields.Int("last_index");
    call.tokens = fields.Number("tokens_after");
    last = std::max(last, call.last_index.value_or(0));
    calls.push_back(call);
  }
  const auto parsed = ParseOrSkip(plan.config, report);
  if (!scenario.AllRead()) return;

  int failure = 0;
  for (int code = 16; code >= 1; --code) {
    const auto candidate = static_cast<absl::StatusCode>(code);
    if (parsed->ForMethod("/a.B/C").retryable_codes.Contains(candidate)) {
      failure = code;
    }
  }
  plan.replies.clear();
  for (int64_t i = 0; i <= last + 1; ++i) {
    const bool succeeds =
        std::find(ok.begin(), ok.end(), static_cast<double>(i)) != ok.end();
    plan.replies.push_back(succeeds ? Reply::Ok() : Reply::Fail(failure));
  }
  for (const Style style : {Style::kSync, Style::kCallback}) {
    CallRig rig(plan);
    size_t before = 0;
    for (size_t i = 0; i < calls.size(); ++i) {
      const std::string what =
          absl::StrCat(end2end::StyleName(style), ", call ", i + 1, ", ");
      const CallSeen seen = rig.Call(style);
      const size_t total = seen.attempts.size();
      const ExpectedCall& call = calls[i];
      if (call.attempts.has_value()) {
        report.Equal(what + "attempts", static_cast<int64_t>(total - before),
                     *call.attempts);
      }
      if (call.status.has_value()) {
        report.Equal(what + "status",
                     std::string(StatusCodeName(
                         SanitizeStatusCode(seen.status.error_code()))),
                     *call.status);
      }
      if (call.last_index.has_value()) {
        report.Equal(what + "last index", static_cast<int64_t>(total) - 1,
                     *call.last_index);
      }
      if (call.tokens.has_value()) {
        report.Equal(what + "tokens", rig.throttle_milli_tokens().value_or(-1),
                     Milli(*call.tokens));
      }
      before = total;
    }
  }
}

}  // namespace retry_guard::conformance
