// `retry_quota`: calls of clients that pay for retries from a quota. Ours has
// no prices; while the quota has enough, or nothing at all, decisions and
// delays are the same.

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "retry_guard/policy/decider.h"
#include "tests/conformance/hints.h"
#include "tests/conformance/kinds.h"

namespace retry_guard::conformance {
namespace {

struct Step {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::optional<absl::Duration> hint;
  std::string outcome;
  std::optional<absl::Duration> delay;
};

// An HTTP status as these clients see it.
absl::StatusCode CodeOf(int64_t http) {
  if (http < 400) return absl::StatusCode::kOk;
  if (http >= 500) return absl::StatusCode::kUnavailable;
  return absl::StatusCode::kInvalidArgument;
}

Step ReadStep(const Fields& fields, Report& report) {
  Step step;
  if (fields.IsNumber("response")) {
    step.code = CodeOf(*fields.Int("response"));
  } else {
    const Fields response = fields.Object("response");
    const auto status = response.Int("status");
    if (!status.has_value()) {
      report.NotApplicable("an answer that is OK and is asked for again");
    }
    step.code = CodeOf(status.value_or(200));
    if (const auto text = response.Text("retry_after_ms")) {
      int64_t ms = 0;
      if (absl::SimpleAtoi(*text, &ms) && ms >= 0) {
        step.hint = absl::Milliseconds(ms);
      }
    }
    if (response.Has("error") || response.Has("code")) {
      report.NotApplicable("a price that depends on the name of an error");
    }
  }
  step.outcome = fields.Text("outcome").value_or("");
  step.delay = fields.Time("delay");
  fields.Bool("call_ends");
  fields.Note({"quota_after"});
  return step;
}

Reason ReasonOf(const std::string& outcome, Report& report) {
  if (outcome == "retry") return Reason::kRetry;
  if (outcome == "success") return Reason::kSucceeded;
  if (outcome == "max_attempts_exceeded") return Reason::kAttemptsExhausted;
  if (outcome == "quota_exceeded") return Reason::kBudgetExhausted;
  if (outcome == "fail_not_retryable") return Reason::kNotRetryable;
  report.NotApplicable(absl::StrCat("steps[].outcome ", outcome));
  return Reason::kRetry;
}

}  // namespace

void ReplayQuota(const Table& /*table*/, const Fields& scenario,
                 Report& report) {
  const Fields config = scenario.Object("config");
  const auto quota = config.Number("quota");
  MethodPolicy policy;
  policy.has_retry_policy = true;
  policy.max_attempts = static_cast<int>(config.Int("maxAttempts").value_or(3));
  policy.backoff.initial = config.Time("base").value_or(absl::Milliseconds(50));
  policy.backoff.max = config.Time("max_backoff").value_or(absl::Seconds(20));
  policy.backoff.jitter = Jitter::kFull;
  config.Note({"random"});  // 1: the ceiling
  std::vector<Step> steps;
  std::vector<Reason> reasons;
  for (const Fields& fields : scenario.Objects("steps")) {
    steps.push_back(ReadStep(fields, report));
    reasons.push_back(ReasonOf(steps.back().outcome, report));
    if (reasons.back() == Reason::kBudgetExhausted && quota != 0) {
      report.NotApplicable(
          "a quota that pays for some retries and not for others; ours has no "
          "prices");
    }
  }
  if (!scenario.AllRead()) return;

  report.Diverges(Rule::kTokensHaveNoPrice);
  BudgetPolicy budget_policy;
  budget_policy.ratio = 0;
  budget_policy.min_retries = quota == 0 ? 0 : 1000;
  RetryBudget budget(budget_policy, std::nullopt);
  CallTerms terms;
  terms.policy = &policy;
  CallProgress progress;
  constexpr double kAlmostOne = 1 - 1e-9;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    ++progress.attempts;
    retry_guard::Outcome outcome;
    outcome.code = step.code;
    if (step.hint.has_value()) {
      outcome.hint = ReadDetails(DetailsWithRetryInfo(*step.hint));
    }
    AttemptEnd end;
    end.outcome = &outcome;
    // The ceiling of our own delay; a hint as it is.
    const bool plain =
        step.hint.value_or(absl::ZeroDuration()) > absl::ZeroDuration();
    const Ruling ruling =
        DecideAfterAttempt(terms, progress, end, budget, absl::UnixEpoch(),
                           plain ? 0 : kAlmostOne);
    const std::string what = absl::StrCat("step ", i + 1);
    report.Equal(what, ReasonName(ruling.reason), ReasonName(reasons[i]));
    if (plain) report.Diverges(Rule::kHintJitter);
    if (step.delay.has_value() && ruling.retry()) {
      // A hint of zero starts from initialBackoff, which is the first rung.
      report.Near(what + " delay", ruling.delay, *step.delay);
    }
    if (!ruling.retry()) progress = CallProgress();  // the next call
  }
}

}  // namespace retry_guard::conformance
