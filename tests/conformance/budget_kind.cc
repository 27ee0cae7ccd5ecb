// `budget`: Finagle's and Tower's retry budgets, of which ours is one: each
// request pays for a share of a retry, for as long as it is in the window.

#include <cmath>

#include "absl/strings/str_cat.h"
#include "retry_guard/policy/retry_budget.h"
#include "tests/conformance/config_text.h"
#include "tests/conformance/kinds.h"

namespace retry_guard::conformance {
namespace {

struct Setup {
  bool empty = false;  // pays for nothing
  double ttl_s = 10;
  double min_per_s = 10;
  double percent = 0.2;

  ConfigText ToConfig() const {
    ConfigText config;
    config.top["retryGuard"] = absl::StrCat(
        R"({"budget": {"ratio": )", percent, R"(, "minRetries": )",
        std::llround(min_per_s * ttl_s), R"(, "window": ")", ttl_s, "s\"}}");
    return config;
  }
};

void CheckValidity(const Setup& setup, bool valid, Report& report) {
  const bool ours = ParseServiceConfig(setup.ToConfig().ToJson()).ok();
  const bool range = setup.percent > 1 || setup.ttl_s < 1 || setup.ttl_s > 60;
  if (ours != valid && range) {
    report.Diverges(Rule::kBudgetRange);
    report.Equal("valid", ours,
                 setup.ttl_s >= 0.001 && setup.percent >= 0 &&
                     setup.percent <= 1 && setup.min_per_s >= 0);
    return;
  }
  report.Equal("valid", ours, valid);
}

// What the scenario expects of the whole run.
struct Expected {
  std::optional<bool> valid;
  std::optional<int64_t> start_balance;
  std::optional<int64_t> balance;
  std::optional<bool> withdraw;
  std::optional<bool> first_withdraw;
  std::optional<int64_t> retries;
  int64_t tolerance = 0;
  bool zero_when_refused = false;
};

// As many requests, each trying one retry.
void ReplayRequests(RetryBudget& budget, int64_t requests,
                    const Expected& expected, Report& report) {
  const absl::Time now = absl::UnixEpoch();
  if (expected.start_balance.has_value()) {
    report.Equal("start balance", budget.Left(now), *expected.start_balance);
  }
  if (expected.first_withdraw.has_value()) {
    report.Equal("first withdraw", budget.Take(now).has_value(),
                 *expected.first_withdraw);
  }
  if (expected.withdraw.has_value() && requests == 0) {
    report.Equal("withdraw", budget.Take(now).has_value(), *expected.withdraw);
  }
  int64_t retries = 0;
  bool zero_when_refused = true;
  for (int64_t i = 0; i < requests; ++i) {
    budget.CountCall(now);
    if (!expected.retries.has_value()) continue;
    if (budget.Take(now).has_value()) {
      ++retries;
    } else if (budget.Left(now) != 0) {
      zero_when_refused = false;
    }
  }
  if (expected.retries.has_value()) {
    report.Check(std::abs(retries - *expected.retries) <= expected.tolerance,
                 absl::StrCat(retries, " retries, not ", *expected.retries));
  }
  if (expected.zero_when_refused) {
    report.Check(zero_when_refused, "a refusal with something left");
  }
  if (expected.balance.has_value()) {
    report.Equal("balance", budget.Left(now), *expected.balance);
  }
}

struct Step {
  std::string op;
  absl::Duration advance;
  std::optional<bool> granted;
  std::optional<int64_t> balance;
};

void ReplaySteps(RetryBudget& budget, const std::vector<Step>& steps,
                 absl::Duration window, Report& report) {
  absl::Time now = absl::UnixEpoch();
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const std::string what = absl::StrCat("step ", i + 1, ", ", step.op);
    if (step.op == "deposit") budget.CountCall(now);
    if (step.op == "advance") now += step.advance;
    if (step.op == "withdraw") {
      bool granted = budget.Take(now).has_value();
      if (!granted && step.granted == true) {
        const absl::Duration lag = window / 64 + absl::Nanoseconds(1);
        granted = budget.Take(now + lag).has_value();
        if (granted) {
          now += lag;
          report.Diverges(Rule::kTokenComesBackLate);
        }
      }
      if (step.granted.has_value()) {
        report.Equal(what, granted, *step.granted);
      }
    }
    if (step.balance.has_value()) {
      report.Equal(what, budget.Left(now), *step.balance);
    }
  }
}

}  // namespace

void ReplayBudget(const Table& /*table*/, const Fields& scenario,
                  Report& report) {
  const Fields config = scenario.Object("config");
  Setup setup;
  if (const auto type = config.Text("type")) {
    setup.empty = *type == "empty";
    if (!setup.empty) report.NotApplicable(absl::StrCat("type ", *type));
  }
  setup.ttl_s = config.Number("ttl_s").value_or(setup.ttl_s);
  setup.min_per_s =
      config.Number("min_per_s").value_or(setup.empty ? 0 : setup.min_per_s);
  setup.percent =
      config.Number("percent").value_or(setup.empty ? 0 : setup.percent);
  const int64_t requests = config.Int("requests").value_or(0);
  if (const auto clock = config.Text("clock")) {
    if (*clock != "frozen") report.NotApplicable("a clock that runs");
  }

  const Fields expect = scenario.Object("expect");
  Expected expected;
  expected.valid = expect.Bool("valid");
  expected.start_balance = expect.Int("start_balance");
  expected.balance = expect.Int("balance");
  expected.withdraw = expect.Bool("withdraw");
  expected.first_withdraw = expect.Bool("first_withdraw_before_any_deposit");
  expected.retries = expect.Int("retries");
  expected.tolerance = expect.Int("tolerance").value_or(0);
  expected.zero_when_refused =
      expect.Bool("balance_zero_whenever_refused").value_or(false);
  const Fields after_deposit = expect.Object("after_deposit");
  const auto deposit_balance = after_deposit.Int("balance");
  const auto deposit_withdraw = after_deposit.Bool("withdraw");

  std::vector<Step> steps;
  for (const Fields& fields : scenario.Objects("steps")) {
    Step step;
    step.op = fields.Text("op").value_or("");
    step.advance = absl::Milliseconds(fields.Number("ms").value_or(0));
    step.granted = fields.Bool("granted");
    step.balance = fields.Int("balance");
    if (step.op != "deposit" && step.op != "advance" && step.op != "withdraw") {
      report.NotApplicable(absl::StrCat("steps[].op ", step.op));
    }
    steps.push_back(step);
  }
  if (!scenario.AllRead()) return;

  if (expected.valid.has_value()) {
    CheckValidity(setup, *expected.valid, report);
    return;
  }
  if (setup.percent > 1) {
    // Twice as many retries as calls are no budget for us.
    report.Diverges(Rule::kBudgetRange);
    report.Check(!ParseServiceConfig(setup.ToConfig().ToJson()).ok(),
                 "a ratio above 1 was taken");
    return;
  }
  const auto parsed = ParseOrSkip(setup.ToConfig(), report);
  if (parsed == nullptr) return;
  const BudgetPolicy& policy = parsed->guard().budget;
  RetryBudget budget(policy, std::nullopt);
  if (!steps.empty()) {
    ReplaySteps(budget, steps, policy.window, report);
    return;
  }
  ReplayRequests(budget, requests, expected, report);
  if (after_deposit.empty()) return;
  budget.CountCall(absl::UnixEpoch());
  if (deposit_balance.has_value()) {
    report.Equal("balance after a deposit", budget.Left(absl::UnixEpoch()),
                 *deposit_balance);
  }
  if (deposit_withdraw.has_value()) {
    report.Equal("withdraw after a deposit",
                 budget.Take(absl::UnixEpoch()).has_value(), *deposit_withdraw);
  }
}

}  // namespace retry_guard::conformance
