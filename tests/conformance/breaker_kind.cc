// `breaker_sequence`: step by step, on the real breaker and a time of its own.

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "retry_guard/policy/circuit_breaker.h"
#include "tests/conformance/breaker_setup.h"
#include "tests/conformance/kinds.h"

namespace retry_guard::conformance {
namespace {

using Result = CircuitBreaker::Result;

// Makes openFor exactly what it says: no jitter.
constexpr double kMiddle = 0.5;

struct Step {
  std::string op;
  std::optional<std::string> state;
  std::optional<bool> granted;
  std::optional<absl::Duration> advance;
  std::string outcome;  // of a call
  int64_t count = 1;
  std::optional<int64_t> granted_count;
  std::optional<std::string> event;
  bool says_retry_after = false;
  bool at_threshold = false;  // one more failure opens
  std::optional<absl::Duration> retry_after;
  std::vector<std::string> ops;  // of a repeat
  std::optional<std::string> state_each;
  std::optional<std::string> left;  // "dead 5 s": how long
};

std::optional<Result> ResultOf(const std::string& outcome) {
  if (outcome == "success") return Result::kSuccess;
  if (outcome == "failure") return Result::kFailure;
  if (outcome == "ignored" || outcome == "excluded") return Result::kNeutral;
  return std::nullopt;
}

bool IsStateOfOurs(const std::string& state) {
  return state == "closed" || state == "open" || state == "half_open";
}

// Reads steps of any of the tables.
class StepReader {
 public:
  StepReader(const BreakerSetup& setup, Report& report)
      : open_for_(setup.policy.open_for), report_(report) {}

  std::vector<Step> Read(const Fields& scenario) {
    std::vector<Step> steps;
    if (const Json* const list = Texts(scenario)) {
      scenario.Whole("steps");
      for (const Json& text : list->GetArray()) {
        steps.push_back(FromText(text.GetString()));
      }
      return steps;
    }
    for (const Fields& fields : scenario.Objects("steps")) {
      steps.push_back(FromObject(fields));
    }
    return steps;
  }

 private:
  static const Json* Texts(const Fields& scenario) {
    if (!scenario.IsArray("steps")) return nullptr;
    const Json* const list = scenario.Peek("steps");
    for (const Json& step : list->GetArray()) {
      if (!step.IsString()) return nullptr;
    }
    return list->Empty() ? nullptr : list;
  }

  // "failure:dead 5 s"
  Step FromText(const std::string& text) {
    const std::vector<std::string> parts = absl::StrSplit(text, ':');
    Step step;
    step.op = parts[0];
    if (parts.size() == 2) {
      if (parts[1] == "alive") {
        step.state = "closed";
      } else if (absl::StartsWith(parts[1], "dead")) {
        step.state = "open";
        step.left = parts[1].substr(4);
      } else {
        report_.NotApplicable(absl::StrCat("steps[] ", text));
      }
    }
    if (!ResultOf(step.op).has_value()) {
      report_.NotApplicable(absl::StrCat("steps[] ", text));
    }
    return step;
  }

  std::optional<absl::Duration> Advance(const Fields& fields) {
    if (!fields.IsString("ms")) {
      const auto ms = fields.Number("ms");
      if (!ms.has_value()) return std::nullopt;
      return absl::Milliseconds(*ms);
    }
    const std::string text = *fields.Text("ms");
    if (text == "break") return open_for_;
    if (text == "2*break") return 2 * open_for_;
    report_.NotApplicable(absl::StrCat("steps[].ms ", text));
    return std::nullopt;
  }

  void ReadRetryAfter(const Fields& fields, Step* step) {
    if (!fields.Has("retry_after")) return;
    if (fields.IsNull("retry_after")) {
      report_.NotApplicable("a refusal without retry-after; ours has one");
      return;
    }
    step->says_retry_after = true;
    const std::string text = fields.Text("retry_after").value_or("");
    int64_t ms = 0;
    absl::string_view rest = text;
    if (text == "set") return;
    if (absl::ConsumePrefix(&rest, "break - ") &&
        absl::ConsumeSuffix(&rest, " ms") && absl::SimpleAtoi(rest, &ms)) {
      step->retry_after = open_for_ - absl::Milliseconds(ms);
    } else if (text == "break") {
      step->retry_after = open_for_;
    } else {
      report_.NotApplicable(absl::StrCat("steps[].retry_after ", text));
    }
  }

  Step FromObject(const Fields& fields) {
    Step step;
    step.op = fields.Text("op").value_or("");
    step.state = fields.Text("state_after");
    step.state_each = fields.Text("state_each");
    for (const auto& state : {step.state, step.state_each}) {
      if (state.has_value() && !IsStateOfOurs(*state)) {
        report_.NotApplicable(
            absl::StrCat("a state \"", *state, "\", which ours does not have"));
      }
    }
    if (fields.IsNumber("granted")) {
      step.granted_count = fields.Int("granted");
    } else {
      step.granted = fields.Bool("granted");
    }
    if (const auto executed = fields.Bool("executed")) step.granted = executed;
    step.advance = Advance(fields);
    step.outcome = fields.Text("outcome").value_or("");
    step.count = fields.Int("n").value_or(fields.Int("times").value_or(1));
    step.ops = fields.Texts("ops");
    if (fields.IsString("event")) step.event = fields.Text("event");
    ReadRetryAfter(fields, &step);
    step.at_threshold = fields.Bool("window_says_open").value_or(false);
    fields.Note({"error"});  // the refusal in words
    for (const char* const counter :
         {"counts", "buffered", "failed", "failure_rate", "not_permitted",
          "requests", "exceeded_events", "event"}) {
      if (!fields.Has(counter) || fields.IsString(counter)) continue;
      fields.Note({counter});
      report_.Diverges(Rule::kCountersHidden);
    }
    CheckOp(fields, step);
    return step;
  }

  void CheckOp(const Fields& fields, Step& step) {
    static const auto* const ours = new std::set<std::string>{
        "success",     "failure",         "ignored",
        "excluded",    "acquire",         "release",
        "advance",     "force_open",      "force_half_open",
        "given_open",  "given_half_open", "given_closed",
        "call",        "start_call",      "start_calls",
        "finish_call", "repeat",          "check",
        "parallel"};
    if (ours->count(step.op) == 0) {
      report_.NotApplicable(
          absl::StrCat("no breaker of ours knows \"", step.op, "\""));
      return;
    }
    if (step.op == "parallel") {
      step.count = fields.Int("threads").value_or(2);
      step.granted_count = fields.Int("calls_each").value_or(1);
    }
    const bool named_outcome = step.op == "call" || step.op == "finish_call";
    if (named_outcome && !ResultOf(step.outcome).has_value()) {
      report_.NotApplicable(absl::StrCat("steps[].outcome ", step.outcome));
    }
    if (step.op == "advance" && !step.advance.has_value()) {
      report_.NotApplicable("steps[].ms is missing");
    }
  }

  const absl::Duration open_for_;
  Report& report_;
};

class BreakerReplay {
 public:
  BreakerReplay(const BreakerSetup& setup, Report& report)
      : setup_(setup), report_(report), breaker_(setup.policy) {}

  void Run(const std::vector<Step>& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      what_ = absl::StrCat("step ", i + 1, ", ", steps[i].op);
      if (!Take(steps[i])) return;  // ours has gone another way, by a rule
    }
  }

 private:
  struct Event {
    absl::Time at;
    bool failure;
  };

  // Open turns to half-open by time alone, and reads so with the next call.
  std::string State() const {
    switch (breaker_.state()) {
      case BreakerState::kClosed:
        return "closed";
      case BreakerState::kHalfOpen:
        return "half_open";
      case BreakerState::kOpen:
        break;
    }
    return breaker_.UntilNextProbe(now_) == absl::ZeroDuration() ? "half_open"
                                                                 : "open";
  }

  bool Take(const Step& step) {
    const std::string& op = step.op;
    if (op == "repeat") {
      for (int64_t i = 0; i < step.count; ++i) {
        for (const std::string& inner : step.ops) {
          if (!Take(FromWord(inner, step.state_each))) return false;
        }
      }
      return Expect(step);
    }
    if (op == "given_open" || op == "force_open") {
      if (!GoOpen()) return false;
      return Expect(step);
    }
    if (op == "given_half_open" || op == "force_half_open") {
      if (!GoOpen()) return false;
      now_ += breaker_.UntilNextProbe(now_);
      return Expect(step);
    }
    if (op == "advance") {
      const std::string before = State();
      now_ += *step.advance;
      if (before == "half_open" && step.state == "open") {
        report_.Diverges(Rule::kHalfOpenHasNoEnd);
        report_.Equal(what_, State(), "half_open");
        return false;
      }
      return Expect(step);
    }
    if (op == "acquire" || op == "start_call") {
      Admit(step);
      return !stop_ && Expect(step);
    }
    if (op == "start_calls") {
      int64_t granted = 0;
      for (int64_t i = 0; i < step.count; ++i) {
        auto admission = breaker_.AdmitFirst(now_);
        if (!admission.permit) continue;
        ++granted;
        held_.push_back(std::move(admission.permit));
      }
      if (step.granted_count.has_value()) {
        if (OtherProbes(granted, *step.granted_count)) return false;
        report_.Equal(what_, granted, *step.granted_count);
      }
      return Expect(step);
    }
    if (op == "release") {
      if (!report_.Check(!held_.empty(), "nothing to release")) return false;
      held_.pop_front();
      return Expect(step);
    }
    if (op == "finish_call") {
      if (!report_.Check(!held_.empty(), "no call to finish")) return false;
      CircuitBreaker::Permit permit = std::move(held_.front());
      held_.pop_front();
      return Settle(permit, *ResultOf(step.outcome), step);
    }
    if (op == "parallel") {
      RunParallel(step);
      return Expect(step);
    }
    if (op == "check" || op == "given_closed") return Expect(step);

    const Result result = *ResultOf(op == "call" ? step.outcome : op);
    if (step.at_threshold && State() == "closed") FillWindow();
    CircuitBreaker::Permit permit = Admit(step, /*hold=*/false);
    if (!permit && !held_.empty() && !step.granted.has_value()) {
      // The end of a call that was let in before.
      permit = std::move(held_.front());
      held_.pop_front();
    }
    if (!permit) return Expect(step);
    return Settle(permit, result, step);
  }

  Step FromWord(const std::string& word,
                const std::optional<std::string>& state) {
    Step step;
    absl::string_view rest = word;
    int64_t ms = 0;
    if (absl::ConsumePrefix(&rest, "advance ") &&
        absl::ConsumeSuffix(&rest, " ms") && absl::SimpleAtoi(rest, &ms)) {
      step.op = "advance";
      step.advance = absl::Milliseconds(ms);
    } else if (ResultOf(word).has_value()) {
      step.op = word;
    } else {
      report_.NotApplicable(absl::StrCat("steps[].ops[] ", word));
      step.op = "check";
    }
    step.state = state;
    return step;
  }

  // The peer lets other numbers in than close it; ours has one for both.
  bool OtherProbes(int64_t ours, int64_t peer) {
    if (ours == peer || State() != "half_open" ||
        setup_.half_open_calls == setup_.policy.probes) {
      return false;
    }
    report_.Diverges(Rule::kProbesClose);
    report_.Equal(what_ + ", probes at a time",
                  static_cast<int64_t>(held_.size()), setup_.policy.probes);
    return true;
  }

  CircuitBreaker::Permit Admit(const Step& step, bool hold = true) {
    auto admission = breaker_.AdmitFirst(now_);
    if (step.granted == true && !admission.permit && OtherProbes(0, 1)) {
      stop_ = true;
      return {};
    }
    if (step.granted.has_value()) {
      report_.Equal(what_ + " granted", static_cast<bool>(admission.permit),
                    *step.granted);
    }
    if (step.says_retry_after) {
      report_.Check(admission.retry_after > absl::ZeroDuration(),
                    what_ + ": no retry-after");
      if (step.retry_after.has_value()) {
        report_.Near(what_ + " retry-after", admission.retry_after,
                     *step.retry_after);
      }
    }
    if (hold && admission.permit) {
      held_.push_back(std::move(admission.permit));
    }
    return std::move(admission.permit);
  }

  bool Settle(CircuitBreaker::Permit& permit, Result result, const Step& step) {
    const std::string before = State();
    const auto change = permit.Settle(result, now_, kMiddle);
    if (before == "closed" && result != Result::kNeutral) {
      events_.push_back({now_, result == Result::kFailure});
      reached_ = RateReached(setup_.policy.window);
      reached_without_edge_ = RateReached(setup_.policy.window * 7 / 8);
    }
    if (change.has_value()) events_.clear();
    if (step.event.has_value()) {
      const std::string event =
          change.has_value()
              ? absl::StrCat(Name(change->from), "->", Name(change->to))
              : "none";
      if (event != *step.event && before == "closed") {
        return WindowRule(step, result);
      }
      report_.Equal(what_ + " event", event, *step.event);
    }
    if (before == "half_open" && result == Result::kFailure &&
        step.state != "open" && setup_.tolerant_half_open) {
      report_.Diverges(Rule::kOneFailureReopens);
      report_.Equal(what_, State(), "open");
      return false;
    }
    if (before == "closed" && step.state.has_value() &&
        *step.state != State()) {
      return WindowRule(step, result);
    }
    return Expect(step);
  }

  static std::string Name(BreakerState state) {
    return state == BreakerState::kHalfOpen
               ? "half_open"
               : std::string(BreakerStateName(state));
  }

  // The peer judges otherwise while closed. Ours must do as its own rule says.
  bool WindowRule(const Step& step, Result result) {
    if (result == Result::kSuccess && reached_ && step.state == "open") {
      report_.Diverges(Rule::kJudgedAtFailure);
      report_.Equal(what_, State(), "closed");
      // The next failure opens it.
      auto admission = breaker_.AdmitFirst(now_);
      admission.permit.Settle(Result::kFailure, now_, kMiddle);
      report_.Equal(what_ + " and a failure", State(), "open");
      return false;
    }
    // Ours counts in slots: what is near the edge of the window may be out.
    const bool near_edge = reached_ != reached_without_edge_;
    if (setup_.last_calls == 0 && !setup_.fixed_intervals && !near_edge) {
      return Expect(step);
    }
    report_.Diverges(Rule::kTimeWindow);
    const bool opens = near_edge ? State() == "open" : reached_;
    report_.Equal(what_, State(),
                  opens && result == Result::kFailure ? "open" : "closed");
    return false;
  }

  // Our rule on what was counted: enough of it, and enough of that failed.
  bool RateReached(absl::Duration window) const {
    const BreakerPolicy& policy = setup_.policy;
    int64_t all = 0;
    int64_t failures = 0;
    for (const Event& event : events_) {
      if (event.at <= now_ - window) continue;
      ++all;
      if (event.failure) ++failures;
    }
    return policy.failure_rate > 0 && all >= policy.min_requests &&
           static_cast<double>(failures) >=
               policy.failure_rate * static_cast<double>(all) - 1e-9;
  }

  bool Expect(const Step& step) {
    if (step.state.has_value()) {
      report_.Equal(what_, State(), *step.state);
    }
    if (step.left.has_value()) {
      absl::string_view text = absl::StripAsciiWhitespace(*step.left);
      absl::ConsumeSuffix(&text, " s");
      double seconds = 0;
      if (absl::SimpleAtod(text, &seconds)) {
        report_.Near(what_ + " dead for", breaker_.UntilNextProbe(now_),
                     absl::Seconds(seconds));
      }
    }
    return !report_.failed();
  }

  // So that one more failure reaches the rate.
  void FillWindow() {
    const BreakerPolicy& policy = setup_.policy;
    const auto failures =
        static_cast<int64_t>(std::ceil(
            policy.failure_rate * static_cast<double>(policy.min_requests) -
            1e-9)) -
        1;
    for (int64_t i = 0; i + 1 < policy.min_requests; ++i) {
      const bool failure = i < failures;
      auto admission = breaker_.AdmitFirst(now_);
      admission.permit.Settle(failure ? Result::kFailure : Result::kSuccess,
                              now_, kMiddle);
      events_.push_back({now_, failure});
    }
  }

  // There is no hand to open it by: real failures do.
  bool GoOpen() {
    if (State() == "open") return true;
    held_.clear();
    for (int i = 0; i < 10000 && State() != "open"; ++i) {
      auto admission = breaker_.AdmitFirst(now_);
      if (!admission.permit) break;
      admission.permit.Settle(Result::kFailure, now_, kMiddle);
    }
    events_.clear();
    return report_.Equal("opened by failures", State(), "open");
  }

  // Successes, failures and neutral ones in turn, on threads of their own.
  void RunParallel(const Step& step) {
    std::vector<std::thread> threads;
    for (int64_t t = 0; t < step.count; ++t) {
      threads.emplace_back([this, calls = *step.granted_count] {
        constexpr Result kTurn[] = {Result::kSuccess, Result::kFailure,
                                    Result::kNeutral};
        for (int64_t i = 0; i < calls; ++i) {
          for (const Result result : kTurn) {
            auto admission = breaker_.AdmitFirst(now_);
            if (admission.permit) {
              admission.permit.Settle(result, now_, kMiddle);
            }
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    // Half of the calls fail, which is less than any of the rates.
    if (setup_.policy.failure_rate > 0.5) {
      report_.Equal(what_, State(), "closed");
    }
  }

  const BreakerSetup setup_;
  Report& report_;
  CircuitBreaker breaker_;
  absl::Time now_ = absl::FromUnixSeconds(1'000'000'000);
  std::deque<CircuitBreaker::Permit> held_;
  std::vector<Event> events_;  // counted while closed
  bool reached_ = false;       // our rate, after the last of them
  bool reached_without_edge_ = false;
  std::string what_;
  bool stop_ = false;
};

}  // namespace

void ReplayBreaker(const Table& table, const Fields& scenario, Report& report) {
  const auto setup = ReadBreakerSetup(table, scenario, report);
  if (!setup.has_value()) return;
  const std::vector<Step> steps = StepReader(*setup, report).Read(scenario);
  if (scenario.Has("expect")) {
    report.NotApplicable("what is expected has no steps that lead there");
  }
  // A forced state must be one that a breaker gets to by itself.
  for (size_t i = 2; i < steps.size(); ++i) {
    if (absl::StartsWith(steps[i].op, "force_")) {
      report.NotApplicable(absl::StrCat(
          "\"", steps[i].op, "\" on the way: ours has no states by hand"));
    }
  }
  if (!scenario.AllRead()) return;
  BreakerReplay(*setup, report).Run(steps);
}

void ReplayBreakerDecision(const Table& table, const Fields& scenario,
                           Report& report) {
  const auto setup = ReadBreakerSetup(table, scenario, report);
  if (!setup.has_value()) return;
  const Fields input = scenario.Object("input");
  const auto state = input.Text("state");
  const auto calls = input.Int("calls");
  const auto failures = input.Int("failures");
  const auto minimum = input.Int("minimum");
  const auto threshold = input.Number("threshold");
  input.Note({"failure_rate"});  // failures / calls
  const Fields expect = scenario.Object("expect");
  const auto open = expect.Bool("open");
  const auto counted = expect.Bool("counted");
  const bool late = state == "open";
  if (state.has_value() && !late) {
    report.NotApplicable(
        absl::StrCat("a state \"", *state, "\", which ours does not have"));
  }
  if (!late && (!calls.has_value() || !failures.has_value() ||
                !minimum.has_value() || !threshold.has_value())) {
    report.NotApplicable("input is not whole");
  }
  if (!scenario.AllRead()) return;

  BreakerPolicy policy = setup->policy;
  const absl::Time now = absl::FromUnixSeconds(1'000'000'000);
  if (late) {
    policy.failure_rate = 1;
    policy.min_requests = 1;
    CircuitBreaker breaker(policy);
    auto early = breaker.AdmitFirst(now);
    breaker.AdmitFirst(now).permit.Settle(Result::kFailure, now, kMiddle);
    const absl::Duration wait = breaker.UntilNextProbe(now);
    const bool changed =
        early.permit.Settle(Result::kFailure, now, kMiddle).has_value();
    if (open.has_value()) report.Equal("opens", changed, *open);
    report.Equal("state", breaker.state() == BreakerState::kOpen, true);
    report.Near("until the next probe", breaker.UntilNextProbe(now), wait);
    if (counted == true) report.Diverges(Rule::kLateResults);
    report.Equal("late results", breaker.stale_results(), 1);
    return;
  }
  policy.failure_rate = *threshold;
  policy.min_requests = *minimum;
  CircuitBreaker breaker(policy);
  for (int64_t i = 0; i < *calls; ++i) {
    const bool failure = i >= *calls - *failures;
    auto admission = breaker.AdmitFirst(now);
    admission.permit.Settle(failure ? Result::kFailure : Result::kSuccess, now,
                            kMiddle);
  }
  if (open.has_value()) {
    report.Equal("open", breaker.state() == BreakerState::kOpen, *open);
  }
}

}  // namespace retry_guard::conformance
