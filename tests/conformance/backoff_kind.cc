// `backoff_sequence`: nominal delays, caps, jitter, and what pushback does to
// the ladder.

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "retry_guard/config/scalars.h"
#include "retry_guard/policy/decider.h"
#include "tests/conformance/config_text.h"
#include "tests/conformance/hints.h"
#include "tests/conformance/kinds.h"

namespace retry_guard::conformance {
namespace {

constexpr absl::Duration kNoCap = absl::Hours(1000);
constexpr double kAlmostOne = 1 - 1e-12;

// Which jitter a config asks for, and how far it goes.
struct Shape {
  BackoffPolicy policy;
  std::optional<double> width;  // +- so much of the nominal delay
  bool named = false;           // the config itself says which jitter
};

std::optional<absl::Duration> DurationField(const Fields& config,
                                            const char* key) {
  if (!config.IsString(key)) return std::nullopt;
  return ParseJsonDuration(*config.Text(key));
}

Shape ReadShape(const Fields& config, Report& report) {
  Shape shape;
  BackoffPolicy& policy = shape.policy;
  policy.jitter = Jitter::kNone;
  policy.initial = absl::Milliseconds(100);
  policy.max = kNoCap;
  policy.multiplier = 2;

  for (const char* const stem :
       {"initial", "initialBackoff", "start", "base"}) {
    if (const auto t = config.Time(stem)) policy.initial = *t;
  }
  for (const char* const stem : {"max", "maxBackoff"}) {
    if (const auto t = config.Time(stem)) policy.max = *t;
  }
  if (const auto t = DurationField(config, "initialBackoff")) {
    policy.initial = *t;
  }
  if (const auto t = DurationField(config, "maxBackoff")) policy.max = *t;
  for (const char* const key : {"multiplier", "backoffMultiplier"}) {
    if (const auto m = config.Number(key)) policy.multiplier = *m;
  }
  if (const auto kind = config.Text("kind")) {
    if (*kind == "const" || *kind == "constant") {
      policy.multiplier = 1;
    } else if (*kind != "exponential") {
      report.NotApplicable(absl::StrCat("a backoff of kind ", *kind,
                                        "; ours is exponential or constant"));
    }
  }
  if (config.IsNumber("jitter")) {
    shape.width = config.Number("jitter");
    shape.named = true;
    if (*shape.width != 0) policy.jitter = Jitter::kProportional;
  } else if (const auto jitter = config.Text("jitter")) {
    shape.named = true;
    if (*jitter == "equal") {
      policy.jitter = Jitter::kEqual;
    } else if (*jitter == "full") {
      policy.jitter = Jitter::kFull;
    } else if (*jitter == "none") {
      policy.jitter = Jitter::kNone;
    } else {
      report.NotApplicable(absl::StrCat("config.jitter ", *jitter));
    }
  }
  if (const auto formula = config.Text("formula")) {
    shape.named = true;
    policy.jitter = Jitter::kFull;
    if (!absl::StartsWith(*formula, "r*min(")) {
      report.NotApplicable(absl::StrCat("config.formula ", *formula));
    }
  }
  return shape;
}

std::vector<absl::Duration> ReadTimes(const Fields& fields,
                                      const std::string& stem) {
  std::vector<absl::Duration> times;
  for (const double ms : fields.Numbers((stem + "_ms").c_str())) {
    times.push_back(absl::Milliseconds(ms));
  }
  for (const double seconds : fields.Numbers((stem + "_s").c_str())) {
    times.push_back(absl::Seconds(seconds));
  }
  return times;
}

// Pairs of `key`_ms or _s.
std::vector<std::pair<absl::Duration, absl::Duration>> ReadRanges(
    const Fields& fields, const std::string& stem, Report& report) {
  std::vector<std::pair<absl::Duration, absl::Duration>> ranges;
  for (const auto& [suffix, unit] : {std::pair("_ms", absl::Milliseconds(1)),
                                     std::pair("_s", absl::Seconds(1))}) {
    const Json* const list = fields.Whole((stem + suffix).c_str());
    if (list == nullptr) continue;
    for (const Json& pair : list->GetArray()) {
      if (!pair.IsArray() || pair.Size() != 2 || !pair[0].IsNumber() ||
          !pair[1].IsNumber()) {
        report.NotApplicable(fields.Path(stem) + " is no list of pairs");
        return {};
      }
      ranges.emplace_back(pair[0].GetDouble() * unit,
                          pair[1].GetDouble() * unit);
    }
  }
  return ranges;
}

// A relative tolerance: what a double loses is no bug.
void CheckNear(absl::string_view what, absl::Duration actual,
               absl::Duration expected, Report& report) {
  report.Near(what, actual, expected,
              std::max(absl::Microseconds(1), expected * 1e-9));
}

void CheckBounds(const BackoffPolicy& policy, int retry, absl::Duration low,
                 absl::Duration high, Report& report) {
  CheckNear("least delay", BackoffDelay(policy, retry, {}, 0), low, report);
  CheckNear("longest delay", BackoffDelay(policy, retry, {}, kAlmostOne), high,
            report);
}

void ReplayDelays(const Fields& scenario, Report& report) {
  const Fields config = scenario.Object("config");
  const Fields expect = scenario.Object("expect");
  if (config.Has("kinds") || scenario.Has("cases")) {
    report.NotApplicable("a linear backoff is among its cases");
    return;
  }
  Shape shape = ReadShape(config, report);
  config.Note({"maxAttempts", "retries", "retryableStatusCodes"});
  expect.Note({"note"});
  // From 0.
  const auto attempt = config.Int("attempt");
  const auto random = config.Number("random");
  const std::vector<absl::Duration> delays = ReadTimes(expect, "delays");
  const std::vector<absl::Duration> nominal = ReadTimes(expect, "nominal");
  const auto delay = expect.Time("delay");
  const absl::Duration tolerance =
      expect.Time("tolerance").value_or(absl::Microseconds(1));
  const auto bound = expect.Number("relative_bound");
  const auto bounds = ReadRanges(expect, "bounds", report);
  const std::vector<absl::Duration> fixed = ReadTimes(expect, "fixed");
  const auto draws = ReadRanges(expect, "draw_ranges", report);
  if (!scenario.AllRead()) return;

  const BackoffPolicy& policy = shape.policy;
  BackoffLadder ladder;
  for (size_t i = 0; i < delays.size(); ++i) {
    CheckNear(absl::StrCat("delay ", i + 1), ladder.Next(policy, 0.5),
              delays[i], report);
  }
  for (size_t i = 0; i < nominal.size(); ++i) {
    CheckNear(absl::StrCat("nominal ", i + 1),
              BackoffCeiling(policy, static_cast<int>(i) + 1), nominal[i],
              report);
  }
  if (delay.has_value()) {
    const int retry = static_cast<int>(std::min<int64_t>(attempt.value_or(0),
                                                         1'000'000'000)) +
                      1;
    const double unit = random == 1 ? kAlmostOne : random.value_or(0.5);
    report.Near("delay", BackoffDelay(policy, retry, {}, unit), *delay,
                tolerance);
  }
  if (bound.has_value()) {
    BackoffPolicy ours = policy;
    ours.jitter = Jitter::kProportional;
    if (*bound != 0.2) report.Diverges(Rule::kProportionalIsFixed);
    for (size_t i = 0; i < nominal.size(); ++i) {
      CheckBounds(ours, static_cast<int>(i) + 1, nominal[i] * 0.8,
                  nominal[i] * 1.2, report);
    }
  }
  for (size_t i = 0; i < bounds.size(); ++i) {
    const int retry = static_cast<int>(i) + 1;
    BackoffPolicy ours = policy;
    ours.jitter = Jitter::kProportional;
    CheckBounds(ours, retry, bounds[i].first, bounds[i].second, report);
    if (!shape.named) {
      report.Diverges(Rule::kFullJitter);
      ours.jitter = BackoffPolicy().jitter;
      CheckBounds(ours, retry, absl::ZeroDuration(),
                  BackoffCeiling(ours, retry), report);
    }
  }
  for (size_t i = 0; i < std::min(fixed.size(), draws.size()); ++i) {
    CheckBounds(policy, static_cast<int>(i) + 1, fixed[i] + draws[i].first,
                fixed[i] + draws[i].second, report);
  }
}

struct Step {
  int after = 0;
  std::optional<absl::Duration> pushback;
  std::optional<absl::Duration> nominal;
  std::optional<absl::Duration> exact;
  std::optional<bool> retry;
};

// One call's walk up and down the ladder, decided by the real decider.
class LadderWalk {
 public:
  LadderWalk(const MethodPolicy& policy, Report& report)
      : report_(report), policy_(policy) {
    terms_.policy = &policy_;
    BudgetPolicy budget;
    budget.min_retries = 1000;
    budget_ = std::make_unique<RetryBudget>(budget, std::nullopt);
  }

  void Take(const Step& step) {
    Outcome outcome;
    outcome.code = absl::StatusCode::kUnavailable;
    if (step.pushback.has_value()) {
      outcome.hint = ReadPushback(
          {absl::StrCat(absl::ToInt64Milliseconds(*step.pushback))});
    }
    progress_.attempts = step.after;
    const std::string what = absl::StrCat("after attempt ", step.after);
    if (step.retry == false) {
      report_.Equal(what, Decide(outcome, 0.5).retry(), false);
      return;
    }
    if (outcome.hint.present() &&
        outcome.hint.delay > policy_.pushback.max_wait) {
      // Ours stops here. To see what follows, it is told to wait so long.
      report_.Diverges(Rule::kMaxPushback);
      report_.Equal(what, ReasonName(Decide(outcome, 0.5).reason),
                    ReasonName(Reason::kServerSaidStop));
      policy_.pushback.max_wait = outcome.hint.delay;
    }
    CallProgress before = progress_;
    const Ruling least = Decide(outcome, 0);
    progress_ = before;
    const Ruling middle = Decide(outcome, 0.5);
    if (!report_.Equal(what, middle.retry(), true)) return;
    if (step.nominal.has_value()) {
      // With +-20 %, 0.5 is the middle.
      CheckNear(what, middle.delay, *step.nominal, report_);
    }
    if (step.exact.has_value()) {
      CheckNear(what, least.delay, *step.exact, report_);
      report_.Diverges(Rule::kHintJitter);
      CheckNear(what, middle.delay, *step.exact * 1.1, report_);
    }
  }

 private:
  Ruling Decide(const Outcome& outcome, double unit) {
    AttemptEnd end;
    end.outcome = &outcome;
    return DecideAfterAttempt(terms_, progress_, end, *budget_,
                              absl::UnixEpoch(), unit);
  }

  Report& report_;
  MethodPolicy policy_;
  CallTerms terms_;
  CallProgress progress_;
  std::unique_ptr<RetryBudget> budget_;
};

void ReplaySteps(const Fields& scenario, Report& report) {
  const Fields config = scenario.Object("config");
  const Shape shape = ReadShape(config, report);
  config.Note({"random", "retryableStatusCodes"});
  MethodPolicy policy;
  policy.has_retry_policy = true;
  policy.max_attempts = static_cast<int>(config.Int("maxAttempts").value_or(5));
  policy.backoff = shape.policy;
  policy.backoff.jitter = Jitter::kProportional;
  std::vector<Step> steps;
  for (const Fields& fields : scenario.Objects("steps")) {
    Step step;
    step.after = static_cast<int>(fields.Int("after_attempt").value_or(0));
    step.pushback = fields.Time("pushback");
    step.nominal = fields.Time("nominal");
    step.exact = fields.Time("exact");
    step.retry = fields.Bool("retry");
    steps.push_back(step);
  }
  if (!scenario.AllRead()) return;
  LadderWalk walk(policy, report);
  for (const Step& step : steps) walk.Take(step);
}

}  // namespace

void ReplayBackoff(const Table& /*table*/, const Fields& scenario,
                   Report& report) {
  if (scenario.Has("steps")) {
    ReplaySteps(scenario, report);
  } else {
    ReplayDelays(scenario, report);
  }
}

}  // namespace retry_guard::conformance
