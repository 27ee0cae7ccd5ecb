#include "tests/conformance/call_extras.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace retry_guard::conformance {
namespace {

using end2end::Style;

}  // namespace

bool ReplayTimes(const Fields& scenario, CallStory story, Report& report) {
  const Fields expect = scenario.Object("expect");
  const auto retries = expect.Int("retries");
  const auto exhausted = expect.Int("budget_exhausted_count");
  const std::vector<double> retries_at = expect.Numbers("retries_at_s");
  const auto ends_before = expect.Time("ends_before");
  if (!retries.has_value() && retries_at.empty() && !ends_before.has_value()) {
    return false;
  }
  if (!scenario.AllRead()) return true;
  if (ParseOrSkip(story.plan.config, report) == nullptr) return true;
  if (!ends_before.has_value()) {
    story.plan.replies = {Reply::Fail(grpc::StatusCode::UNAVAILABLE)};
  }
  for (const Style style : story.styles) {
    const absl::Time start = absl::Now();
    const CallSeen seen = MakeCall(story.plan, style);
    if (retries.has_value()) {
      report.Equal("retries", seen.snapshot.retries, *retries);
    }
    if (ends_before.has_value()) {
      report.Check(absl::Now() - start < *ends_before, "took too long");
      report.Equal("attempts", seen.snapshot.attempts,
                   story.expected.attempts.value_or(1));
      report.Equal("status", CodeName(seen.status),
                   story.expected.status.value_or("CANCELLED"));
    }
    // The peer's one budget is for ours the budget, or the attempts.
    if (exhausted.has_value()) {
      int64_t count = 0;
      for (const Reason reason :
           {Reason::kBudgetExhausted, Reason::kAttemptsExhausted}) {
        const auto found = seen.snapshot.refusals.find(reason);
        if (found != seen.snapshot.refusals.end()) count += found->second;
      }
      report.Equal("exhausted", count, *exhausted);
    }
    absl::Duration at = absl::ZeroDuration();
    for (size_t i = 0; i < retries_at.size(); ++i) {
      if (!report.Check(i < seen.decisions.size(), "too few retries")) break;
      at += seen.decisions[i].delay;
      report.Near(absl::StrCat("retry ", i + 1), at,
                  absl::Seconds(retries_at[i]));
    }
  }
  return true;
}

void CheckFlags(const Fields& scenario, const CallStory& story,
                Report& report) {
  struct Flags {
    std::optional<bool> retryable;
    std::optional<bool> retried;
  };
  std::vector<Flags> flags;
  for (const Fields& fields : scenario.Object("expect").Objects("flags")) {
    flags.push_back({fields.Bool("retryable"), fields.Bool("retried")});
  }
  if (flags.empty() || !scenario.AllRead()) return;
  CallPlan plan = story.plan;
  plan.replies.clear();
  for (const StoryAttempt& attempt : story.attempts) {
    plan.replies.push_back(attempt.reply);
  }
  const CallSeen seen = MakeCall(plan, Style::kSync);
  for (size_t i = 0; i < flags.size(); ++i) {
    if (!report.Check(i < seen.decisions.size(), "too few decisions")) return;
    const testing::RecordedDecision& decision = seen.decisions[i];
    if (flags[i].retried.has_value()) {
      report.Equal("retried", decision.verdict == Verdict::kRetry,
                   *flags[i].retried);
    }
    if (flags[i].retryable.has_value()) {
      report.Equal("retryable",
                   decision.reason != Reason::kNotRetryable &&
                       decision.reason != Reason::kSucceeded,
                   *flags[i].retryable);
    }
  }
}

bool ReplayLifetime(const Fields& scenario, CallStory story, Report& report) {
  const Fields expect = scenario.Object("expect");
  const bool no_leak = expect.Bool("no_leak").value_or(false);
  const bool completes =
      expect.Bool("status_operation_completes").value_or(false);
  const bool reads = expect.Bool("reads_complete").value_or(false);
  if (!no_leak && !completes && !reads) return false;
  if (!scenario.AllRead()) return true;
  if (ParseOrSkip(story.plan.config, report) == nullptr) return true;
  story.plan.replies.clear();
  for (const StoryAttempt& attempt : story.attempts) {
    story.plan.replies.push_back(attempt.reply);
  }
  // In C++ a unary call is dropped by cancelling it.
  story.plan.cancel_in_flight = story.plan.replies.back().hold;
  for (const Style style : {Style::kCallback, Style::kReactor, Style::kQueue}) {
    const CallSeen seen = MakeCall(story.plan, style);
    const std::string name = end2end::StyleName(style);
    if (no_leak) report.Check(seen.everything_freed, name + " leaks");
    if (completes) {
      report.Equal(name + " ends", CodeName(seen.status), "CANCELLED");
    }
    if (story.expected.attempts.has_value()) {
      report.Equal(name + " attempts", seen.snapshot.attempts,
                   *story.expected.attempts);
    }
  }
  return true;
}

namespace {

// The call that has these refusals in it, and what becomes of it by our rule.
struct RefusedCall {
  CallPlan plan;
  bool resends = true;  // the first refusal, that is
  int64_t attempts = 0;
};

RefusedCall TellRefused(const CallStory& story) {
  RefusedCall call;
  call.plan = story.plan;
  call.plan.replies.clear();
  size_t first = story.attempts.size();  // refusal
  bool ordinary = false;                 // a retry by policy is in it
  bool listed = true;
  for (size_t i = 0; i < story.attempts.size(); ++i) {
    const StoryAttempt& attempt = story.attempts[i];
    Reply reply = attempt.reply;
    if (reply.hold) reply = Reply::Ok();  // nothing more is said of it
    if (attempt.refused) {
      first = std::min(first, i);
      listed = reply.status == grpc::StatusCode::UNAVAILABLE;
      reply = Reply::Refuse();
    } else if (i + 1 < story.attempts.size()) {
      ordinary = true;
    }
    call.plan.replies.push_back(reply);
  }
  call.attempts = static_cast<int64_t>(story.attempts.size());

  ConfigText& config = call.plan.config;
  if (story.has_policy) {
    const auto parsed = ParseServiceConfig(config.ToJson());
    listed =
        parsed.ok() && (*parsed)->ForMethod("/a.B/C").retryable_codes.Contains(
                           absl::StatusCode::kUnavailable);
  } else if (!ordinary) {
    // UNAVAILABLE is what is retried without a policy.
    config = ConfigText();
    listed = true;
  } else {
    // "retryable" is ABORTED, so that a refusal may be so, or not.
    config = ConfigText();
    config.retry_policy["maxAttempts"] = "5";
    config.retry_policy["retryableStatusCodes"] =
        listed ? R"(["ABORTED", "UNAVAILABLE"])" : R"(["ABORTED"])";
    FillRetryPolicy(&config);
    for (size_t i = 0; i < call.plan.replies.size(); ++i) {
      if (!story.attempts[i].refused &&
          call.plan.replies[i].status == grpc::StatusCode::UNAVAILABLE) {
        call.plan.replies[i].status = grpc::StatusCode::ABORTED;
      }
    }
  }
  call.resends = listed;
  if (!listed) call.attempts = static_cast<int64_t>(first) + 1;
  return call;
}

}  // namespace

bool ReplayRefused(const Fields& scenario, const CallStory& story,
                   Report& report) {
  const bool any =
      std::any_of(story.attempts.begin(), story.attempts.end(),
                  [](const StoryAttempt& attempt) { return attempt.refused; });
  if (!any) return false;
  const Fields expect = scenario.Object("expect");
  // By the names of the policy's fields; what the transport makes of it.
  expect.Note({"delays", "transport_attempts"});
  const std::vector<double> previous = expect.Numbers("previous_attempts");
  const auto committed_at = expect.Int("committed_at_attempt");
  if (!scenario.AllRead()) return true;

  const RefusedCall call = TellRefused(story);
  const auto peer_attempts = story.expected.attempts;
  const bool as_peer = !call.resends && peer_attempts == call.attempts;
  if (!as_peer) report.Diverges(Rule::kRefusedOnce);
  for (const Style style : {Style::kSync, Style::kCallback}) {
    const CallSeen seen = MakeCall(call.plan, style);
    const std::string name = end2end::StyleName(style);
    size_t resends = 0;
    for (const testing::RecordedDecision& decision : seen.decisions) {
      if (!decision.resend) continue;
      ++resends;
      report.Near(name + " delay of the re-send", decision.delay,
                  absl::ZeroDuration());
    }
    report.Equal(name + " re-sends", resends,
                 call.resends ? size_t{1} : size_t{0});
    report.Equal(name + " attempts", seen.snapshot.attempts, call.attempts);
    if (!call.resends) {
      report.Equal(name + " reason", ReasonName(seen.last_reason()),
                   ReasonName(Reason::kNotRetryable));
      continue;
    }
    if (committed_at.has_value()) {
      report.Equal(name + " attempts", seen.snapshot.attempts, *committed_at);
    }
    if (story.expected.status.has_value()) {
      report.Equal(name + " status", CodeName(seen.status),
                   *story.expected.status);
    }
    // Ours numbers the re-send too.
    for (size_t i = 0; i < previous.size(); ++i) {
      if (!report.Check(i < seen.attempts.size(), "too few attempts")) break;
      report.Equal(name + " header",
                   seen.attempts[i].One("grpc-previous-rpc-attempts"),
                   i == 0 ? "" : absl::StrCat(i));
    }
  }
  return true;
}

void ReplayIdempotency(const Fields& scenario, Report& report) {
  std::vector<std::pair<bool, int64_t>> cases;
  int64_t most = 2;
  for (const Fields& fields : scenario.Objects("cases")) {
    const auto idempotent = fields.Bool("idempotent");
    const auto attempts = fields.Int("attempts");
    if (!idempotent.has_value() || !attempts.has_value()) {
      report.NotApplicable("cases[] are not about idempotency");
      return;
    }
    cases.emplace_back(*idempotent, *attempts);
    most = std::max(most, *attempts);
  }
  if (!scenario.AllRead()) return;
  for (const auto& [idempotent, attempts] : cases) {
    CallPlan plan;
    plan.config.retry_policy["maxAttempts"] =
        absl::StrCat(std::min<int64_t>(most, 5));
    plan.config.method_guard["maxAttempts"] = absl::StrCat(most);
    plan.config.method_guard["idempotency"] =
        Quote(idempotent ? "IDEMPOTENT" : "NON_IDEMPOTENT");
    FillRetryPolicy(&plan.config);
    plan.replies = {Reply::Fail(grpc::StatusCode::UNAVAILABLE)};
    for (const Style style : {Style::kSync, Style::kCallback}) {
      report.Equal(idempotent ? "idempotent" : "not idempotent",
                   MakeCall(plan, style).snapshot.attempts, attempts);
    }
  }
}

}  // namespace retry_guard::conformance
