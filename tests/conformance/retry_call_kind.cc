// `retry_call`: what happens to one call, over a real channel to a real server.
//
// A scenario names the attempts of the peer, one after the other. The script of
// our server is just that; where a rule of ours makes more or other attempts of
// it, that rule's outcome is what is expected.

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "retry_guard/config/scalars.h"
#include "retry_guard/policy/absl_view.h"
#include "tests/conformance/call_extras.h"
#include "tests/conformance/call_story.h"
#include "tests/conformance/hints.h"
#include "tests/conformance/kinds.h"
#include "tests/conformance/stream_story.h"

namespace retry_guard::conformance {
namespace {

using end2end::Style;

class CallReplay {
 public:
  CallReplay(const CallStory& story, Report& report)
      : story_(story), report_(report) {}

  void Run() {
    if (!Prepare()) return;
    for (const Style style : story_.styles) {
      const CallEnd& expected = end2end::HeadersCommit(style) && commits_
                                    ? *commits_
                                    : story_.expected;
      Check(MakeCall(story_.plan, style), expected, end2end::StyleName(style));
    }
    if (!commits_.has_value()) return;
    // Where the caller may look at headers early, ours does as the peer.
    for (const Style style : {Style::kReactor, Style::kQueueHeadersFirst}) {
      Check(MakeCall(story_.plan, style), *commits_, end2end::StyleName(style));
    }
  }

 private:
  // Makes the script; changes what is expected where a rule of ours says so.
  bool Prepare() {
    CallPlan& plan = story_.plan;
    const auto config = ParseOrSkip(plan.config, report_);
    if (config == nullptr) return false;
    const MethodPolicy& policy = config->ForMethod("/a.B/C");
    story_.max_attempts = policy.max_attempts;
    story_.retryable = policy.retryable_codes;
    story_.backoff = policy.backoff;
    story_.per_attempt = policy.per_attempt_timeout;

    plan.replies.clear();
    for (StoryAttempt& attempt : story_.attempts) {
      switch (attempt.by) {
        case StoryAttempt::By::kLocal:
          plan.local_failures += attempt.repeat;
          plan.local_status =
              static_cast<grpc::StatusCode>(attempt.reply.status);
          break;
        case StoryAttempt::By::kTransport:
          plan.connect_failures += attempt.repeat;
          break;
        case StoryAttempt::By::kServer:
        case StoryAttempt::By::kNobody:
          if (attempt.refused) Refuse(&attempt);
          for (int i = 0; i < attempt.repeat; ++i) {
            plan.replies.push_back(attempt.reply);
          }
          break;
      }
    }
    const bool script_ends = !plan.replies.empty();
    if (plan.replies.empty()) plan.replies = {Reply::Ok()};

    ScaleTime();
    LookAtTheEnd();
    LookForTimeouts();
    LookForConnects(policy);
    if (script_ends) {
      LookForCommit();
      LookForBuffer();
      LookForHints();
    }
    return report_.applicable();
  }

  void Refuse(StoryAttempt* attempt) {
    attempt->reply.status = grpc::StatusCode::UNAVAILABLE;
    attempt->reply.message = Reply::Refuse().message;
  }

  // Scaled down where the real deadline of an attempt has to pass.
  void ScaleTime() {
    CallPlan& plan = story_.plan;
    const bool waits =
        std::any_of(plan.replies.begin(), plan.replies.end(),
                    [](const Reply& reply) { return reply.hold; });
    if (!waits || plan.cancel_in_flight) return;
    absl::Duration longest = story_.per_attempt < absl::InfiniteDuration()
                                 ? story_.per_attempt * 4
                                 : plan.deadline;
    if (!(longest < absl::InfiniteDuration())) return;
    const double factor = absl::FDivDuration(absl::Milliseconds(600), longest);
    if (factor >= 1) return;
    if (plan.deadline < absl::InfiniteDuration()) plan.deadline *= factor;
    const auto scale = [factor](std::map<std::string, std::string>* members,
                                const char* key) {
      const auto found = members->find(key);
      if (found == members->end()) return;
      const std::string& text = found->second;  // in quotes
      const auto duration = ParseJsonDuration(text.substr(1, text.size() - 2));
      if (duration.has_value()) {
        found->second = QuoteDuration(*duration * factor);
      }
    };
    scale(&plan.config.method, "timeout");
    for (const char* const key :
         {"initialBackoff", "maxBackoff", "perAttemptRecvTimeout"}) {
      scale(&plan.config.retry_policy, key);
    }
  }

  bool Retryable(const Reply& reply) const {
    return reply.status != 0 &&
           story_.retryable.Contains(SanitizeStatusCode(reply.status));
  }

  // The caller's cancellation or deadline, by how the call is to end.
  void LookAtTheEnd() {
    CallPlan& plan = story_.plan;
    CallEnd& expected = story_.expected;
    const Reply& last = plan.replies.back();
    if (expected.status == "CANCELLED" && !timeouts_expected()) {
      if (last.hold) {
        plan.cancel_in_flight = true;
      } else if (Retryable(last) && last.status != 1) {
        plan.cancel_in_backoff = true;
        CancelOfWaitThatDoesNotFit();
      }
    }
    if (expected.status == "DEADLINE_EXCEEDED" && !last.hold &&
        Retryable(last) && last.status != 4) {
      // It passes in a backoff: ours sees that coming.
      report_.Diverges(Rule::kDeadlineFit);
      plan.config.method_guard["jitter"] = Quote("NONE");
      expected.status =
          std::string(StatusCodeName(SanitizeStatusCode(last.status)));
      expected.reason = Reason::kDeadlineTooClose;
    }
  }

  // The peer waits, although it could know that the deadline comes first; ours
  // has nothing to cancel then.
  void CancelOfWaitThatDoesNotFit() {
    CallPlan& plan = story_.plan;
    const int retry = static_cast<int>(plan.replies.size());
    if (BackoffCeiling(story_.backoff, retry) < plan.deadline) return;
    report_.Diverges(Rule::kDeadlineFit);
    plan.config.method_guard["jitter"] = Quote("NONE");
    CallEnd refused = story_.expected;
    refused.status = CodeName(grpc::Status(
        static_cast<grpc::StatusCode>(plan.replies.back().status), ""));
    refused.reason = Reason::kDeadlineTooClose;
    Check(MakeCall(plan, Style::kSync), refused, "with the deadline");
    plan.deadline = absl::InfiniteDuration();
  }

  bool timeouts_expected() const {
    return story_.per_attempt < absl::InfiniteDuration() &&
           std::any_of(story_.attempts.begin(), story_.attempts.end(),
                       [](const StoryAttempt& attempt) {
                         return attempt.by == StoryAttempt::By::kNobody;
                       });
  }

  // An attempt timeout is a class of its own: for a method of which nothing is
  // known it ends the call, unless DEADLINE_EXCEEDED is listed; for an
  // idempotent one it is retried like anything else.
  void LookForTimeouts() {
    if (!timeouts_expected()) return;
    report_.Diverges(Rule::kAttemptTimeout);
    CallEnd idempotent = story_.expected;
    const bool all_time_out =
        std::all_of(story_.plan.replies.begin(), story_.plan.replies.end(),
                    [](const Reply& reply) { return reply.hold; });
    idempotent.mentions = std::nullopt;
    if (all_time_out) idempotent.status = "DEADLINE_EXCEEDED";
    CallPlan plan = story_.plan;
    plan.method = "Idempotent";
    Check(MakeCall(plan, Style::kSync), idempotent, "idempotent, sync");
    Check(MakeCall(plan, Style::kCallback), idempotent, "idempotent, callback");

    if (story_.retryable.Contains(absl::StatusCode::kDeadlineExceeded)) {
      story_.expected = idempotent;
      return;
    }
    size_t before = 0;
    while (!story_.plan.replies[before].hold) ++before;
    CallEnd unknown;
    unknown.attempts = static_cast<int64_t>(before) + 1;
    unknown.server_calls = unknown.attempts;
    unknown.status = "DEADLINE_EXCEEDED";
    unknown.reason = Reason::kNotIdempotent;
    story_.expected = unknown;
  }

  // Attempts without a connection are attempts.
  void LookForConnects(const MethodPolicy& policy) {
    int& failures = story_.plan.connect_failures;
    if (failures == 0) return;
    report_.Diverges(Rule::kNeverConnected);
    CallEnd& expected = story_.expected;
    if (!policy.retryable_codes.Contains(absl::StatusCode::kUnavailable)) {
      failures = -1;
      expected = CallEnd();
      expected.attempts = 1;
      expected.status = "UNAVAILABLE";
      expected.reason = Reason::kNotRetryable;
      return;
    }
    if (failures >= policy.max_attempts) {
      failures = -1;  // no server ever
      expected = CallEnd();
      expected.attempts = policy.max_attempts;
      expected.server_calls = 0;
      expected.status = "UNAVAILABLE";
      expected.reason = Reason::kAttemptsExhausted;
      return;
    }
    expected.attempts = failures + 1;
    for (StoryAttempt& attempt : story_.attempts) {
      if (attempt.by == StoryAttempt::By::kServer && attempt.previous == "") {
        attempt.previous = absl::StrCat(failures);
      }
    }
  }

  // The peer stops at the first attempt that showed something; in the blocking
  // and callback styles ours goes on.
  void LookForCommit() {
    const auto& replies = story_.plan.replies;
    const auto peer_attempts = story_.expected.attempts;
    if (!peer_attempts.has_value()) return;
    const auto at = static_cast<size_t>(*peer_attempts) - 1 -
                    static_cast<size_t>(story_.plan.local_failures);
    if (at >= replies.size()) return;
    const Reply& last = replies[at];
    const bool shows = last.headers || last.messages > 0;
    if (!shows || !Retryable(last) || *peer_attempts >= story_.max_attempts) {
      return;
    }
    if (end2end::HeadersCommit(story_.styles[0])) {
      story_.expected.reason = Reason::kCommitted;
      return;
    }
    report_.Diverges(Rule::kUnaryHeaders);
    commits_ = story_.expected;
    commits_->reason = Reason::kCommitted;
    OneMore(at);
  }

  void LookForBuffer() {
    if (!story_.buffer_bytes.has_value() ||
        static_cast<int64_t>(story_.plan.request_bytes) <
            *story_.buffer_bytes) {
      return;
    }
    const auto peer_attempts = story_.expected.attempts;
    if (!peer_attempts.has_value() || *peer_attempts >= story_.max_attempts) {
      return;
    }
    const auto at = static_cast<size_t>(*peer_attempts) - 1;
    if (at >= story_.plan.replies.size() ||
        !Retryable(story_.plan.replies[at])) {
      return;
    }
    report_.Diverges(Rule::kUnaryBuffer);
    OneMore(at);
  }

  // Ours makes an attempt after the one at `at`, and that succeeds.
  void OneMore(size_t at) {
    story_.plan.replies.resize(at + 1);
    story_.plan.replies.push_back(Reply::Ok());
    CallEnd more;
    more.attempts = *story_.expected.attempts + 1;
    more.server_calls = more.attempts;
    more.status = "OK";
    more.message_from = more.attempts;
    story_.expected = more;
  }

  void LookForHints() {
    const auto& replies = story_.plan.replies;
    for (size_t i = 0; i < replies.size(); ++i) {
      std::vector<std::string> values;
      const auto [first, last] =
          replies[i].trailers.equal_range("grpc-retry-pushback-ms");
      for (auto it = first; it != last; ++it) values.push_back(it->second);
      if (values.empty()) continue;
      const ServerHint hint = ReadPushback(values);
      const auto attempt = static_cast<int64_t>(i) + 1;
      const bool peer_retries = story_.expected.attempts > attempt;
      if (values.size() > 1) {
        report_.Check(hint.stop, "two pushbacks do not stop");
        if (peer_retries || ReadPushback({values.back()}).stop ||
            attempt >= story_.max_attempts) {
          continue;
        }
        report_.Diverges(Rule::kOnePushback);
        OneMore(i);
        return;
      }
      if (peer_retries && ServerForbidsRetry(hint, PushbackPolicy()) &&
          !hint.stop) {
        report_.Diverges(Rule::kMaxPushback);
        CallEnd stopped;
        stopped.attempts = attempt;
        stopped.reason = Reason::kServerSaidStop;
        story_.expected = stopped;
        return;
      }
      // Unlisted, yet the server itself says when.
      if (!peer_retries && hint.consent() &&
          replies[i].status == grpc::StatusCode::RESOURCE_EXHAUSTED &&
          !Retryable(replies[i]) && attempt < story_.max_attempts) {
        report_.Diverges(Rule::kResourceExhausted);
        OneMore(i);
        return;
      }
    }
  }

  void Check(const CallSeen& seen, const CallEnd& expected,
             const std::string& style) {
    const auto what = [&](const char* name) {
      return absl::StrCat(style, ", ", name);
    };
    if (expected.attempts.has_value()) {
      report_.Equal(what("attempts"), seen.snapshot.attempts,
                    *expected.attempts);
    }
    if (expected.server_calls.has_value()) {
      report_.Equal(what("server calls"),
                    static_cast<int64_t>(seen.attempts.size()),
                    *expected.server_calls);
    }
    if (expected.status.has_value()) {
      report_.Equal(what("status"), CodeName(seen.status), *expected.status);
    }
    if (expected.text.has_value()) {
      report_.Equal(what("text"), seen.status.error_message(), *expected.text);
    }
    if (expected.message_from.has_value()) {
      report_.Equal(what("reply"), seen.text,
                    absl::StrCat("attempt ", *expected.message_from));
    }
    if (expected.mentions.has_value()) {
      report_.Check(
          absl::StrContains(seen.status.error_message(), *expected.mentions),
          absl::StrCat(style, ", text: ", seen.status.error_message()));
    }
    if (expected.previous.has_value() && !seen.attempts.empty()) {
      report_.Equal(what("last header"),
                    seen.attempts.back().One("grpc-previous-rpc-attempts"),
                    *expected.previous);
    }
    if (expected.reason.has_value()) {
      report_.Equal(what("reason"), ReasonName(seen.last_reason()),
                    ReasonName(*expected.reason));
    }
    CheckAttempts(seen, style);
  }

  // What the server saw of each attempt.
  void CheckAttempts(const CallSeen& seen, const std::string& style) {
    size_t at = 0;
    for (const StoryAttempt& attempt : story_.attempts) {
      if (attempt.by == StoryAttempt::By::kLocal ||
          attempt.by == StoryAttempt::By::kTransport) {
        continue;
      }
      for (int i = 0; i < attempt.repeat; ++i, ++at) {
        if (at >= seen.attempts.size()) return;
        const SeenAttempt& there = seen.attempts[at];
        if (attempt.previous.has_value()) {
          report_.Equal(absl::StrCat(style, ", attempt ", at + 1, ", header"),
                        there.One("grpc-previous-rpc-attempts"),
                        *attempt.previous);
        }
        if (!attempt.metadata_seen.empty()) {
          for (const auto& [key, value] : story_.plan.metadata) {
            report_.Check(there.One(key) == value,
                          absl::StrCat(style, ", attempt ", at + 1,
                                       ": metadata ", key.substr(0, 20)));
          }
        }
      }
    }
  }

  CallStory story_;
  Report& report_;
  // What is expected where headers commit, if that is not what ours does else.
  std::optional<CallEnd> commits_;
};

}  // namespace

void ReplayCall(const Table& /*table*/, const Fields& scenario,
                Report& report) {
  if (scenario.Has("cases")) {
    ReplayIdempotency(scenario, report);
    return;
  }
  CallStory story = ReadCallStory(scenario, report);
  const Fields expect = scenario.Object("expect");
  if (!report.applicable()) return;
  if (ReplayStreams(scenario, story, report) ||
      ReplayRefused(scenario, story, report) ||
      ReplayLifetime(scenario, story, report) ||
      ReplayTimes(scenario, story, report)) {
    return;
  }
  // How many attempts the peer's own transport makes is not ours to see.
  expect.Note({"transport_attempts"});
  if (const auto last = expect.Int("last_index")) {
    // The peer's server numbers attempts of all its tests in one row: where
    // this one starts is where it must have ended, less its attempts.
    const int64_t first = *last - story.expected.attempts.value_or(1) + 1;
    report.Check(first >= 0, "expect.last_index is before the first attempt");
  }
  if (story.attempts.empty()) {
    // How often the server fails follows from how the call is to end.
    if (!story.expected.attempts.has_value()) {
      report.NotApplicable("neither attempts nor their number");
      return;
    }
    for (int64_t i = 0; i < *story.expected.attempts; ++i) {
      StoryAttempt attempt;
      const bool ok =
          story.expected.status == "OK" && i + 1 == *story.expected.attempts;
      attempt.reply =
          ok ? Reply::Ok() : Reply::Fail(grpc::StatusCode::UNAVAILABLE);
      story.attempts.push_back(attempt);
    }
  }
  CheckFlags(scenario, story, report);
  if (!scenario.AllRead()) return;
  CallReplay(story, report).Run();
}

}  // namespace retry_guard::conformance
