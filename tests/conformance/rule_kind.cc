// `rule`: sentences of a specification. What is expected names the rule; where
// the condition stands in the title alone, its words are read.

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "retry_guard/policy/decider.h"
#include "tests/conformance/calls.h"
#include "tests/conformance/kinds.h"

namespace retry_guard::conformance {
namespace {

using end2end::Style;

constexpr Style kStyles[] = {Style::kSync, Style::kCallback};

// A retryPolicy of `attempts` against a server that always answers `reply`.
CallPlan Failing(int64_t attempts, const Reply& reply) {
  CallPlan plan;
  plan.config.retry_policy["maxAttempts"] = absl::StrCat(attempts);
  FillRetryPolicy(&plan.config);
  plan.replies = {reply};
  return plan;
}

Reply Unavailable() { return Reply::Fail(grpc::StatusCode::UNAVAILABLE); }

std::string Title(const Fields& scenario) {
  return absl::AsciiStrToLower(scenario.Text("title").value_or(""));
}

void AttemptsAndRetries(const Fields& scenario, Report& report) {
  const Fields expect = scenario.Object("expect");
  const auto attempts = expect.Int("maxAttempts");
  const auto retries = expect.Int("retries");
  if (!scenario.AllRead()) return;
  if (!attempts.has_value() || !retries.has_value()) {
    report.NotApplicable("expect has not both numbers");
    return;
  }
  const CallPlan plan = Failing(*attempts, Unavailable());
  if (ParseOrSkip(plan.config, report) == nullptr) return;
  for (const Style style : kStyles) {
    report.Equal("retries", MakeCall(plan, style).snapshot.retries, *retries);
  }
}

// The deadline is the call's: what an attempt is told is left shrinks by what
// the attempts and waits before it took.
void DeadlineSpans(const Fields& scenario, Report& report) {
  const auto reset =
      scenario.Object("expect").Bool("per_attempt_deadline_reset");
  if (!scenario.AllRead()) return;
  CallPlan plan = Failing(3, Unavailable());
  plan.config.retry_policy["initialBackoff"] = "\"1s\"";
  plan.config.retry_policy["maxBackoff"] = "\"1s\"";
  plan.config.method_guard["jitter"] = "\"NONE\"";
  plan.deadline = absl::Seconds(30);
  for (const Style style : kStyles) {
    const CallSeen seen = MakeCall(plan, style);
    if (!report.Equal("attempts", seen.attempts.size(), size_t{3})) return;
    int64_t before = 0;
    for (size_t i = 0; i < seen.attempts.size(); ++i) {
      int64_t left = 0;
      if (!absl::SimpleAtoi(seen.attempts[i].One("retry-remaining-ms"),
                            &left)) {
        report.Check(false, "an attempt without retry-remaining-ms");
        return;
      }
      if (i > 0) {
        report.Equal("deadline starts anew", before - left < 1000, *reset);
      }
      before = left;
    }
  }
  // A retry that would end after the deadline is not made.
  plan.deadline = absl::Milliseconds(900);
  for (const Style style : kStyles) {
    const CallSeen seen = MakeCall(plan, style);
    report.Equal("attempts under a short deadline", seen.snapshot.attempts, 1);
  }
}

// "Retryable status", "do-not-retry pushback" and the like, before the colon.
void Responses(const Fields& scenario, Report& report) {
  const std::string title = Title(scenario);
  const std::string condition = title.substr(0, title.find(':'));
  const Fields expect = scenario.Object("expect");
  const auto retry = expect.Bool("retry");
  const auto delay = expect.Text("delay");
  Reply reply = Unavailable();
  bool known = true;
  if (absl::StrContains(condition, "non-retryable status")) {
    reply.status = grpc::StatusCode::INVALID_ARGUMENT;
  } else {
    known = absl::StrContains(condition, "retryable status");
  }
  const bool stop = absl::StrContains(condition, "do-not-retry pushback") ||
                    absl::StrContains(condition, "negative pushback");
  const bool without = absl::StrContains(condition, "without pushback") ||
                       absl::StrContains(condition, "no pushback");
  if (stop) {
    reply.trailers = {{"grpc-retry-pushback-ms", "-1"}};
    known = true;
  } else if (absl::StrContains(condition, "pushback") && !without) {
    reply.trailers = {{"grpc-retry-pushback-ms", "1000"}};
  }
  if (!known || !retry.has_value() || scenario.Text("group") != "responses") {
    report.NotApplicable("its condition is none of those that are known");
  } else if (delay.has_value() && *delay != "policy" && *delay != "pushback") {
    report.NotApplicable(absl::StrCat("expect.delay ", *delay));
  }
  if (!scenario.AllRead()) return;
  for (const Style style : kStyles) {
    const CallSeen seen = MakeCall(Failing(2, reply), style);
    if (!report.Check(!seen.decisions.empty(), "no decision")) return;
    report.Equal("retry", seen.decisions[0].verdict == Verdict::kRetry, *retry);
    if (delay == "policy") {
      report.Within("delay", seen.decisions[0].delay, absl::ZeroDuration(),
                    absl::Milliseconds(1));
    } else if (delay == "pushback") {
      report.Diverges(Rule::kHintJitter);
      report.Within("delay", seen.decisions[0].delay, absl::Seconds(1),
                    absl::Seconds(1.2));
    }
  }
}

void NoPolicy(const Fields& scenario, Report& report) {
  const auto retry = scenario.Object("expect").Bool("retry");
  if (!scenario.AllRead()) return;
  CallPlan plan;
  plan.replies = {Unavailable()};
  for (const Style style : kStyles) {
    report.Equal("retry", MakeCall(plan, style).snapshot.retries > 0, *retry);
  }
}

// Of a message that does not fit the buffer.
void Buffer(const Fields& scenario, Report& report) {
  const Fields expect = scenario.Object("expect");
  expect.Bool("committed");
  expect.Bool("sent");
  expect.Bool("retryable");
  if (!scenario.AllRead()) return;
  report.Diverges(Rule::kUnaryBuffer);
  CallPlan plan = Failing(2, Unavailable());
  plan.config.method_guard["bufferLimitBytes"] = "1024";
  plan.request_bytes = 100 * 1024;
  for (const Style style : kStyles) {
    const CallSeen seen = MakeCall(plan, style);
    report.Equal("attempts", seen.attempts.size(), size_t{2});
  }
}

// Which part of a response commits.
void Commit(const Fields& scenario, Report& report) {
  const std::string title = Title(scenario);
  const auto committed = scenario.Object("expect").Bool("committed");
  Reply reply = Unavailable();
  const bool trailers_only = absl::StrContains(title, "trailers-only") ||
                             absl::StrContains(title, "trailers only");
  if (!trailers_only) {
    reply.headers = true;
    const bool response = absl::StrContains(title, "response");
    if (response && absl::StrContains(title, "message")) reply.messages = 1;
    const bool headers = absl::StrContains(title, "header");
    if ((!headers && reply.messages == 0) || committed != true) {
      report.NotApplicable("its condition is none of those that are known");
    }
  }
  if (!scenario.AllRead()) return;
  for (const Style style : {Style::kReactor, Style::kQueueHeadersFirst}) {
    const CallSeen seen = MakeCall(Failing(2, reply), style);
    report.Equal("retried", seen.snapshot.retries > 0, !*committed);
  }
  if (*committed) report.Diverges(Rule::kUnaryHeaders);
  for (const Style style : kStyles) {
    const CallSeen seen = MakeCall(Failing(2, reply), style);
    report.Equal("retried, to a blocking or callback caller",
                 seen.snapshot.retries, 1);
  }
}

// A re-send after a refused stream.
void Counted(const Fields& scenario, Report& report) {
  const auto counted = scenario.Object("expect").Bool("counted");
  if (!scenario.AllRead()) return;
  CallPlan plan = Failing(2, Unavailable());
  plan.replies = {Reply::Refuse(), Unavailable(), Reply::Ok()};
  report.Diverges(Rule::kRefusedOnce);
  for (const Style style : kStyles) {
    const CallSeen seen = MakeCall(plan, style);
    // Two attempts of maxAttempts, and the one that was refused.
    report.Equal("counts for maxAttempts", seen.snapshot.attempts != 3,
                 *counted);
    if (!report.Equal("attempts", seen.attempts.size(), size_t{3})) return;
    report.Equal("number", seen.attempts[2].One("grpc-previous-rpc-attempts"),
                 "2");
  }
}

void Limit(const Fields& scenario, Report& report) {
  const Fields expect = scenario.Object("expect");
  const bool no_limit = expect.IsNull("limit");
  const auto limit = expect.Int("limit");
  if (scenario.Text("group") != "transparent" || (!no_limit && limit != 1)) {
    report.NotApplicable("its condition is none of those that are known");
  }
  if (!scenario.AllRead()) return;
  if (no_limit) {
    // Of attempts that never left: ours are attempts like any other.
    report.Diverges(Rule::kNeverConnected);
    CallPlan plan = Failing(3, Unavailable());
    plan.connect_failures = -1;
    for (const Style style : kStyles) {
      const CallSeen seen = MakeCall(plan, style);
      report.Equal("attempts", seen.snapshot.attempts, 3);
    }
    return;
  }
  for (const Style style : kStyles) {
    const CallSeen seen = MakeCall(Failing(2, Reply::Refuse()), style);
    int64_t resends = 0;
    for (const auto& decision : seen.decisions) {
      if (!decision.resend) continue;
      ++resends;
      report.Near("delay", decision.delay, absl::ZeroDuration());
    }
    report.Equal("re-sends", resends, *limit);
    // One, its re-send, and one by policy.
    report.Equal("attempts", seen.snapshot.attempts, 2 + *limit);
  }
}

// In which order the questions are asked.
void Order(const Fields& scenario, Report& report) {
  const Fields expect = scenario.Object("expect");
  const std::vector<std::string> order = expect.Texts("order");
  const auto untouched = expect.Text("quota_untouched_when");
  if (order != std::vector<std::string>{"retryable?", "quota?", "delay"} ||
      (untouched.has_value() && *untouched != "not retryable")) {
    report.NotApplicable("expect.order is another one");
  }
  if (!scenario.AllRead()) return;
  BudgetPolicy policy;
  policy.min_retries = 1;
  RetryBudget budget(policy, std::nullopt);
  MethodPolicy method;
  method.has_retry_policy = true;
  CallTerms terms;
  terms.policy = &method;
  const absl::Time now = absl::UnixEpoch();
  const auto decide = [&](absl::StatusCode code, absl::Duration remaining) {
    CallProgress progress;
    progress.attempts = 1;
    terms.deadline = now + remaining;
    retry_guard::Outcome outcome;
    outcome.code = code;
    AttemptEnd end;
    end.outcome = &outcome;
    return DecideAfterAttempt(terms, progress, end, budget, now, 0.5).reason;
  };
  const absl::Duration enough = absl::Hours(1);
  report.Check(
      decide(absl::StatusCode::kNotFound, enough) == Reason::kNotRetryable &&
          budget.Left(now) == 1,
      "a failure that is not retryable touched the budget");
  // Ours asks for the delay first, and takes the token last.
  report.Diverges(Rule::kTokenIsLast);
  report.Check(decide(absl::StatusCode::kUnavailable, absl::Milliseconds(1)) ==
                       Reason::kDeadlineTooClose &&
                   budget.Left(now) == 1,
               "a retry that does not fit touched the budget");
  report.Check(
      decide(absl::StatusCode::kUnavailable, enough) == Reason::kRetry &&
          budget.Left(now) == 0,
      "a retry took no token");
}

}  // namespace

void ReplayRule(const Table& /*table*/, const Fields& scenario,
                Report& report) {
  const Fields expect = scenario.Object("expect");
  const std::string title = Title(scenario);
  if (expect.Has("maxAttempts") && expect.Has("retries")) {
    AttemptsAndRetries(scenario, report);
  } else if (expect.Has("per_attempt_deadline_reset")) {
    DeadlineSpans(scenario, report);
  } else if (expect.Has("retry") && absl::StrContains(title, "no policy")) {
    NoPolicy(scenario, report);
  } else if (expect.Has("retry")) {
    Responses(scenario, report);
  } else if ((expect.Has("committed") || expect.Has("sent")) &&
             absl::StrContains(title, "buffer")) {
    Buffer(scenario, report);
  } else if (expect.Has("committed")) {
    Commit(scenario, report);
  } else if (expect.Has("counted") && absl::StrContains(title, "transparent")) {
    Counted(scenario, report);
  } else if (expect.Has("limit")) {
    Limit(scenario, report);
  } else if (expect.Has("order")) {
    Order(scenario, report);
  } else {
    report.NotApplicable(
        expect.Keys().empty()
            ? "it expects nothing"
            : absl::StrCat("no replay knows ", expect.Path(expect.Keys()[0])));
  }
}

}  // namespace retry_guard::conformance
