// `property`: for all of something, something holds. Many random cases, decided
// by the real decider, from a fixed seed.

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "retry_guard/policy/absl_view.h"
#include "retry_guard/policy/decider.h"
#include "retry_guard/policy/random.h"
#include "retry_guard/policy/status_codes.h"
#include "tests/conformance/hints.h"
#include "tests/conformance/kinds.h"

namespace retry_guard::conformance {
namespace {

constexpr int kTrials = 20'000;

enum class Push { kAny, kNegative, kNone };

// What `for_all` fixes; everything else is drawn.
struct Domain {
  bool committed = false;
  bool any_status = false;
  std::optional<absl::StatusCode> not_this;  // any status but the listed one
  Push push = Push::kAny;
};

std::optional<Domain> ReadDomain(const std::string& text) {
  Domain domain;
  bool known = false;
  if (absl::StrContains(text, "committed = true")) {
    domain.committed = known = true;
  }
  const std::string other = "status any other than ";
  const size_t at = text.find(other);
  if (at != std::string::npos) {
    std::string name = text.substr(at + other.size());
    name =
        name.substr(0, name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_"));
    domain.not_this = StatusCodeFromName(name);
    if (!domain.not_this.has_value()) return std::nullopt;
    known = true;
  } else if (absl::StrContains(text, "any status")) {
    domain.any_status = known = true;
  }
  if (absl::StrContains(text, "any negative pushback")) {
    domain.push = Push::kNegative;
    known = true;
  } else if (absl::StrContains(text, "no pushback")) {
    domain.push = Push::kNone;
    known = true;
  }
  if (absl::StartsWith(text, "any valid policy (") &&
      absl::EndsWith(text, "any trailers")) {
    known = true;
  }
  if (!known) return std::nullopt;
  return domain;
}

// One random decision.
class Trial {
 public:
  Trial(const Domain& domain, Random& random) : random_(random) {
    MethodPolicy& policy = policy_;
    policy.has_retry_policy = true;
    policy.max_attempts = 2 + static_cast<int>(random.Unit() * 4);
    policy.backoff.initial =
        absl::Milliseconds(1 + static_cast<int>(random.Unit() * 99'999));
    policy.backoff.max = std::max(
        policy.backoff.initial,
        absl::Milliseconds(1 + static_cast<int>(random.Unit() * 99'999)));
    policy.backoff.multiplier = 0.1 + random.Unit() * 9.9;
    constexpr Jitter kJitters[] = {Jitter::kFull, Jitter::kEqual,
                                   Jitter::kProportional, Jitter::kNone};
    policy.backoff.jitter = kJitters[static_cast<int>(random.Unit() * 4)];
    const absl::StatusCode listed =
        domain.not_this.value_or(absl::StatusCode::kUnavailable);
    policy.retryable_codes = {listed};
    do {
      code_ = static_cast<absl::StatusCode>(
          1 + static_cast<int>(random.Unit() * 16));
    } while (domain.not_this == code_);
    if (!domain.any_status && !domain.not_this.has_value()) code_ = listed;
    DrawPushback(domain.push);
    committed_ = domain.committed;
  }

  Ruling Decide() {
    BudgetPolicy budget_policy;
    budget_policy.min_retries = 10;
    RetryBudget budget(budget_policy, std::nullopt);
    CallTerms terms;
    terms.policy = &policy_;
    CallProgress progress;
    const int attempt =
        1 + static_cast<int>(random_.Unit() * (policy_.max_attempts - 1));
    for (int i = 1; i < attempt; ++i) {
      progress.ladder.Next(policy_.backoff, random_.Unit());
    }
    progress.attempts = attempt;
    retry_guard::Outcome outcome;
    outcome.code = code_;
    outcome.hint = hint_;
    AttemptEnd end;
    end.outcome = &outcome;
    end.committed = committed_;
    return DecideAfterAttempt(terms, progress, end, budget, absl::UnixEpoch(),
                              random_.Unit());
  }

  absl::StatusCode code() const { return code_; }
  const ServerHint& hint() const { return hint_; }
  const MethodPolicy& policy() const { return policy_; }

 private:
  void DrawPushback(Push push) {
    const double kind = random_.Unit();
    if (push == Push::kNone || (push == Push::kAny && kind < 0.33)) return;
    const int64_t ms = static_cast<int64_t>(random_.Unit() * 50'000) + 1;
    const bool negative = push == Push::kNegative || kind < 0.5;
    hint_ = ReadPushback({absl::StrCat(negative ? -ms : ms)});
  }

  Random& random_;
  MethodPolicy policy_;
  absl::StatusCode code_ = absl::StatusCode::kUnavailable;
  ServerHint hint_;
  bool committed_ = false;
};

// "0 <= delay <= max(maxBackoff*1.2, pushback)": the factor.
std::optional<double> ReadBound(const std::string& holds) {
  const std::string head = "0 <= delay <= max(maxBackoff*";
  const std::string tail = ", pushback)";
  double factor = 0;
  if (!absl::StartsWith(holds, head) || !absl::EndsWith(holds, tail) ||
      !absl::SimpleAtod(
          holds.substr(head.size(), holds.size() - head.size() - tail.size()),
          &factor)) {
    return std::nullopt;
  }
  return factor;
}

void CheckNoRetry(const Domain& domain, Report& report) {
  Random random(1);
  int exceptions = 0;
  for (int i = 0; i < kTrials; ++i) {
    Trial trial(domain, random);
    const Ruling ruling = trial.Decide();
    // Our one exception: the server itself says when.
    const bool ours = !domain.committed &&
                      trial.code() == absl::StatusCode::kResourceExhausted &&
                      domain.not_this.has_value() && trial.hint().consent();
    if (ours) ++exceptions;
    if (ruling.retry() != ours) {
      report.Check(
          false,
          absl::StrCat("trial ", i, ": ", AbslView(ReasonName(ruling.reason)),
                       " for ", AbslView(StatusCodeName(trial.code()))));
      return;
    }
  }
  report.Check(true, "");
  if (exceptions > 0) report.Diverges(Rule::kResourceExhausted);
}

void CheckDelays(const Domain& domain, double factor, Report& report) {
  Random random(1);
  int retries = 0;
  for (int i = 0; i < kTrials; ++i) {
    Trial trial(domain, random);
    const Ruling ruling = trial.Decide();
    if (!ruling.retry()) continue;
    ++retries;
    const MethodPolicy& policy = trial.policy();
    const absl::Duration top =
        std::max(policy.backoff.max * factor,
                 trial.hint().delay * (1 + policy.pushback.jitter));
    if (ruling.delay < absl::ZeroDuration() || ruling.delay > top) {
      report.Check(false, absl::StrCat("trial ", i, ": ",
                                       absl::FormatDuration(ruling.delay)));
      return;
    }
  }
  report.Check(retries > kTrials / 10, "hardly a trial was retried");
  report.Diverges(Rule::kHintJitter);
}

// The nominal delay of any rung stays between the first and the cap.
void CheckLadder(Report& report) {
  Random random(1);
  for (int i = 0; i < kTrials; ++i) {
    BackoffPolicy policy;
    policy.initial = absl::Nanoseconds(1 + random.Unit() * 1e12);
    policy.max = policy.initial + absl::Nanoseconds(random.Unit() * 1e13);
    policy.multiplier = 1 + random.Unit() * 9;
    const int retry = random.Unit() < 0.5
                          ? 1 + static_cast<int>(random.Unit() * 100)
                          : 1 + static_cast<int>(random.Unit() * 2e9);
    const absl::Duration base = BackoffCeiling(policy, retry);
    if (base < policy.initial || base > policy.max) {
      report.Check(false, absl::StrCat("rung ", retry, ": ",
                                       absl::FormatDuration(base)));
      return;
    }
  }
  report.Check(true, "");
}

}  // namespace

void ReplayProperty(const Table& table, const Fields& scenario,
                    Report& report) {
  const std::string for_all = scenario.Text("for_all").value_or("");
  const std::string holds = scenario.Text("holds").value_or("");
  if (for_all == "every trial") {
    ReplaySimulation(table, scenario, report);
    return;
  }
  if (!scenario.AllRead()) return;
  if (holds == "min <= base <= max") {
    CheckLadder(report);
    return;
  }
  const auto domain = ReadDomain(for_all);
  const auto factor = ReadBound(holds);
  if (!domain.has_value()) {
    report.NotApplicable(absl::StrCat("no replay knows: ", for_all));
  } else if (holds == "no retry") {
    CheckNoRetry(*domain, report);
  } else if (factor.has_value()) {
    CheckDelays(*domain, *factor, report);
  } else {
    report.NotApplicable(absl::StrCat("no replay knows: ", holds));
  }
}

}  // namespace retry_guard::conformance
