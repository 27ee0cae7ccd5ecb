// `retry_call`: what happens to one call, over a real channel to a real server.
//
// A scenario names the attempts of the peer, one after the other. The script of
// our server is just that; where a rule of ours makes more or other attempts of
// it, that rule's outcome is what is expected.

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "retry_guard/config/scalars.h"
#include "retry_guard/policy/status_codes.h"
#include "tests/conformance/calls.h"
#include "tests/conformance/hints.h"
#include "tests/conformance/kinds.h"

namespace retry_guard::conformance {
namespace {

using end2end::Style;

// What an attempt of a scenario is.
struct Attempt {
  enum class By { kServer, kLocal, kNobody, kTransport };
  By by = By::kServer;
  int repeat = 1;
  Reply reply;
  bool refused = false;
  // Of the header that counts attempts: not said, absent (""), or a number.
  std::optional<std::string> previous;
  std::vector<std::string> metadata_seen;
};

struct Expected {
  std::optional<int64_t> attempts;
  std::optional<int64_t> server_calls;
  std::optional<std::string> status;
  std::optional<std::string> text;          // of the status
  std::optional<int64_t> message_from;      // the attempt that was delivered
  std::optional<std::string> mentions;      // in the text of the status
  std::optional<std::string> previous;      // header of the last attempt
  std::optional<Reason> reason;
};

// Everything about one scenario.
struct Story {
  CallPlan plan;
  std::vector<Attempt> attempts;
  std::vector<Style> styles = {Style::kSync, Style::kCallback};
  Expected expected;
  int64_t max_attempts = 3;
  StatusCodeSet retryable = {absl::StatusCode::kUnavailable};
  absl::Duration per_attempt = absl::InfiniteDuration();
  std::optional<int64_t> buffer_bytes;
};

// Words for outcomes where a table has no codes.
std::optional<int> StatusOfWord(const std::string& word) {
  if (const auto code = StatusCodeFromName(word)) {
    return static_cast<int>(*code);
  }
  if (word == "ok") return 0;
  if (word == "retryable" || word == "error" ||
      absl::StartsWith(word, "error ")) {
    return grpc::StatusCode::UNAVAILABLE;
  }
  if (word == "fatal" || word == "non-retryable" || word == "refused error") {
    return grpc::StatusCode::INVALID_ARGUMENT;
  }
  return std::nullopt;
}

std::string CodeName(const grpc::Status& status) {
  return std::string(StatusCodeName(SanitizeStatusCode(status.error_code())));
}

class StoryReader {
 public:
  StoryReader(const Fields& scenario, Report& report)
      : scenario_(scenario), report_(report) {}

  Story Read() {
    ReadConfig(scenario_.Object("config"));
    if (scenario_.Has("attempts")) {
      for (const Fields& fields : scenario_.Objects("attempts")) {
        ReadAttempt(fields);
      }
    } else if (scenario_.IsObject("input")) {
      ReadInput(scenario_.Object("input"));
    }
    ReadClient();
    ReadExpect(scenario_.Object("expect"));
    return std::move(story_);
  }

 private:
  void ReadConfig(const Fields& config) {
    ConfigText& text = story_.plan.config;
    if (const Json* const policy = config.Whole("retryPolicy")) {
      text.retry_policy = MembersOf(*policy);
      has_policy_ = true;
    } else {
      no_policy_ = config.IsNull("retryPolicy");
    }
    if (const Json* const throttle = config.Whole("retryThrottling")) {
      text.top["retryThrottling"] = ToText(*throttle);
    }
    if (const auto timeout = config.Text("method_timeout")) {
      text.method["timeout"] = Quote(*timeout);
    }
    if (const auto deadline = config.Time("deadline")) {
      story_.plan.deadline = *deadline;
    }
    if (config.Bool("channel_enable_retries") == false) {
      story_.plan.retries_enabled = false;
    }
    story_.buffer_bytes = config.Int("per_rpc_retry_buffer_bytes");
    config.Note({"experimental"});  // what the peer has to switch on
    ReadOtherSystems(config);
  }

  // Limits as other systems are given them.
  void ReadOtherSystems(const Fields& config) {
    ConfigText& text = story_.plan.config;
    for (const char* const key : {"maxAttempts", "tries"}) {
      if (const auto n = config.Int(key)) Attempts(*n);
    }
    for (const char* const key : {"retries", "max_retries"}) {
      if (const auto n = config.Int(key)) Attempts(*n + 1);
    }
    const auto ttl = config.Number("ttl_s");
    const auto per_s = config.Number("min_per_s");
    const double percent = config.Number("percent").value_or(0);
    if (ttl.has_value() && per_s.has_value()) {
      text.top["retryGuard"] = absl::StrCat(
          R"({"budget": {"ratio": )", percent, R"(, "minRetries": )",
          std::llround(*ttl * *per_s), R"(, "window": ")", *ttl,
          R"(s"}, "breaker": {"failureRate": 0}})");
    }
    if (const auto cancel = config.Time("cancel_after")) {
      story_.plan.cancel_in_flight = true;
      story_.plan.replies = {Reply::Hold()};
      scripted_ = true;
    }
    config.Time("server_delay");  // longer than the call lives
    const std::vector<double> schedule = config.Numbers("schedule_s");
    if (schedule.empty()) return;
    for (size_t i = 0; i + 1 < schedule.size(); ++i) {
      if (std::abs(schedule[i + 1] / schedule[i] -
                   schedule[1] / schedule[0]) > 1e-9) {
        report_.NotApplicable("config.schedule_s is not exponential");
      }
    }
    Attempts(static_cast<int64_t>(schedule.size()) + 1);
    text.retry_policy["initialBackoff"] =
        QuoteDuration(absl::Seconds(schedule[0]));
    text.retry_policy["maxBackoff"] =
        QuoteDuration(absl::Seconds(schedule.back()));
    text.retry_policy["backoffMultiplier"] =
        absl::StrCat(schedule.size() > 1 ? schedule[1] / schedule[0] : 1);
    text.method_guard["jitter"] = Quote("NONE");
  }

  void Attempts(int64_t attempts) {
    limit_ = attempts;
    // Not a retryPolicy: gRPC's limit of 5 does not hold.
    story_.plan.config.retry_policy["maxAttempts"] =
        absl::StrCat(std::max<int64_t>(attempts, 2));
    story_.plan.config.method_guard["maxAttempts"] = absl::StrCat(attempts);
  }

  void ReadAttempt(const Fields& fields) {
    Attempt attempt;
    Reply& reply = attempt.reply;
    ReadBy(fields, &attempt);
    if (fields.IsNumber("status")) {
      reply.status = static_cast<int>(fields.Int("status").value_or(0));
    } else {
      for (const char* const key : {"status", "outcome"}) {
        const auto word = fields.Text(key);
        if (!word.has_value()) continue;
        const auto status = StatusOfWord(*word);
        if (!status.has_value()) {
          report_.NotApplicable(absl::StrCat(fields.Path(key), " ", *word));
        }
        reply.status = status.value_or(0);
        if (*status != 0 && !StatusCodeFromName(*word).has_value()) {
          reply.message = *word;
        }
      }
    }
    if (fields.Bool("trailers_only") == false) reply.headers = true;
    reply.messages = static_cast<int>(fields.Int("messages").value_or(0));
    ReadTrailers(fields, &reply);
    for (const char* const key :
         {"request_header_previous_attempts", "previous_attempts"}) {
      if (fields.IsNull(key)) attempt.previous = "";
      if (fields.IsNumber(key)) {
        attempt.previous = absl::StrCat(*fields.Int(key));
      } else if (const auto text = fields.Text(key)) {
        attempt.previous = *text;
      }
    }
    attempt.metadata_seen = fields.Texts("request_metadata_seen");
    attempt.repeat = static_cast<int>(fields.Int("repeat").value_or(1));
    ReadStream(fields, &attempt);
    if (const auto progress = fields.Text("progress")) {
      if (*progress == "refused") {
        attempt.refused = true;
      } else if (*progress != "processed") {
        report_.NotApplicable(absl::StrCat(fields.Path("progress"), " ",
                                           *progress));
      }
    }
    fields.Note({"network_state", "sends"});
    story_.attempts.push_back(std::move(attempt));
  }

  void ReadBy(const Fields& fields, Attempt* attempt) {
    const std::string by = fields.Text("by").value_or("server");
    const auto reached = fields.Bool("reached_server");
    if (by == "server") {
      attempt->by = Attempt::By::kServer;
    } else if (by == "local") {
      attempt->by = Attempt::By::kLocal;
    } else if (by == "transport") {
      attempt->by = Attempt::By::kTransport;
    } else if (by == "no_response" || by == "in_flight") {
      attempt->by = Attempt::By::kNobody;
      attempt->reply = Reply::Hold();
    } else {
      report_.NotApplicable(absl::StrCat(fields.Path("by"), " ", by));
    }
    const bool ours_reaches = attempt->by == Attempt::By::kServer ||
                              attempt->by == Attempt::By::kNobody;
    if (reached.has_value() && *reached != ours_reaches) {
      report_.NotApplicable(
          absl::StrCat(fields.Path("reached_server"), " of ", by));
    }
  }

  void ReadTrailers(const Fields& fields, Reply* reply) {
    const Fields trailers = fields.Object("trailers");
    for (const std::string& key : trailers.Keys()) {
      if (trailers.IsArray(key.c_str())) {
        for (const std::string& value : trailers.Texts(key.c_str())) {
          reply->trailers.emplace(key, value);
        }
      } else if (const auto value = trailers.Text(key.c_str())) {
        reply->trailers.emplace(key, *value);
      }
    }
  }

  // One message each way is a unary call, on the wire too.
  void ReadStream(const Fields& fields, Attempt* attempt) {
    for (const char* const key : {"recv", "request_messages_seen"}) {
      if (!fields.Has(key)) continue;
      const std::vector<std::string> messages = fields.Texts(key);
      if (messages.size() > 1) Streams();
      if (messages.size() == 1 && messages[0] == "large") {
        story_.plan.request_bytes = 500;
      }
    }
    if (!fields.Has("send")) return;
    const std::vector<std::string> messages = fields.Texts("send");
    if (messages.size() > 1) Streams();
    attempt->reply.messages = static_cast<int>(messages.size());
  }

  void Streams() { report_.NotApplicable("streams are not retried yet"); }

  // grpc-node's server: succeeds when the header says so.
  void ReadInput(const Fields& input) {
    const auto previous = input.Int("succeed_on_previous_attempts");
    input.IsNull("succeed_on_previous_attempts");
    int fail_with = grpc::StatusCode::UNKNOWN;
    if (input.IsNumber("fail_with")) {
      fail_with = static_cast<int>(*input.Int("fail_with"));
    } else if (const auto name = input.Text("fail_with")) {
      fail_with = static_cast<int>(
          StatusCodeFromName(*name).value_or(absl::StatusCode::kUnknown));
    }
    input.IsNull("fail_with");
    for (int64_t i = 0; i <= previous.value_or(0); ++i) {
      Attempt attempt;
      attempt.previous = i == 0 ? "" : absl::StrCat(i);
      const bool ok = i == previous.value_or(0);
      attempt.reply = ok ? Reply::Ok() : Reply::Fail(fail_with);
      story_.attempts.push_back(attempt);
    }
  }

  // What the application does, in words.
  void ReadClient() {
    for (const std::string& event : scenario_.Texts("client_events")) {
      if (absl::StrContains(event, "ask for response headers only") ||
          event == "wait for headers") {
        story_.styles = {Style::kQueueHeadersFirst, Style::kReactor};
      } else if (absl::StrContains(event, "custom metadata")) {
        story_.plan.metadata = {
            {"foo", "bar"}, {"long-" + std::string(200, 'k'),
                             std::string(1000, 'v')}};
      } else if (!absl::StartsWith(event, "send ") &&
                 !absl::StartsWith(event, "read ") &&
                 event != "status received while nobody waits for it" &&
                 event != "ask for message and status" &&
                 event != "release them after the send completes") {
        report_.NotApplicable(absl::StrCat("client_events[] ", event));
      }
    }
    const std::vector<double> bytes = scenario_.Numbers("request_message_bytes");
    if (bytes.size() > 1) Streams();
    if (bytes.size() == 1) {
      story_.plan.request_bytes = static_cast<size_t>(bytes[0]);
    }
  }

  void ReadExpect(const Fields& expect) {
    Expected& expected = story_.expected;
    expected.attempts = expect.Int("attempts");
    expected.server_calls = expect.Int("server_calls");
    expected.status = expect.Text("final_status");
    expected.message_from = expect.Int("final_message_from_attempt");
    expected.mentions = expect.Text("message_mentions");
    if (const auto last = expect.Int("last_previous_attempts")) {
      expected.previous = *last == 0 ? "" : absl::StrCat(*last);
    }
    ReadFinal(expect);
  }

  // The end in words: "ok", "error 3", "last error", "the error itself".
  void ReadFinal(const Fields& expect) {
    const auto final = expect.Text("final");
    if (!final.has_value()) return;
    if (const auto status = StatusOfWord(*final)) {
      story_.expected.status =
          std::string(StatusCodeName(static_cast<absl::StatusCode>(*status)));
      if (*status != 0 && !story_.attempts.empty()) {
        story_.expected.text = *final;
      }
    } else if (*final == "last error") {
      story_.expected.status = "UNAVAILABLE";
    } else if (*final == "the error itself" && !story_.attempts.empty()) {
      story_.expected.status = std::string(StatusCodeName(
          SanitizeStatusCode(story_.attempts.back().reply.status)));
    } else {
      report_.NotApplicable(absl::StrCat("expect.final ", *final));
    }
  }

 public:
  bool has_policy() const { return has_policy_; }
  bool no_policy() const { return no_policy_; }
  bool scripted() const { return scripted_; }
  std::optional<int64_t> limit() const { return limit_; }

 private:
  const Fields scenario_;
  Report& report_;
  Story story_;
  bool has_policy_ = false;
  bool no_policy_ = false;  // the scenario says that there is none
  bool scripted_ = false;
  std::optional<int64_t> limit_;
};

// Fills in the policy that a scenario without one means: the codes that it sees
// retried, and as many attempts as it shows.
void SupplyPolicy(const StoryReader& reader, Story* story) {
  if (reader.no_policy() || reader.has_policy()) return;
  std::vector<std::string> codes;
  const auto& attempts = story->attempts;
  for (size_t i = 0; i + 1 < attempts.size(); ++i) {
    const int status = attempts[i].reply.status;
    if (status >= 1 && status <= 16) codes.push_back(absl::StrCat(status));
  }
  codes.push_back("14");
  std::sort(codes.begin(), codes.end());
  codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
  std::string list;
  for (const std::string& code : codes) {
    absl::StrAppend(&list, list.empty() ? "[" : ", ", code);
  }
  ConfigText& config = story->plan.config;
  config.retry_policy.emplace("retryableStatusCodes", list + "]");
  if (!attempts.empty() && !reader.limit().has_value()) {
    const int last = attempts.back().reply.status;
    const bool exhausted =
        std::find(codes.begin(), codes.end(), absl::StrCat(last)) !=
        codes.end();
    const auto n = static_cast<int64_t>(attempts.size()) + (exhausted ? 0 : 1);
    config.retry_policy["maxAttempts"] =
        absl::StrCat(std::max<int64_t>(n, 2));
    config.method_guard["maxAttempts"] = absl::StrCat(n);
  }
  FillRetryPolicy(&config);
}

class CallReplay {
 public:
  CallReplay(const Story& story, Report& report)
      : story_(story), report_(report) {}

  void Run() {
    if (!Prepare()) return;
    for (const Style style : story_.styles) {
      const Expected& expected = end2end::HeadersCommit(style) && commits_
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
    story_.per_attempt = policy.per_attempt_timeout;

    plan.replies.clear();
    for (Attempt& attempt : story_.attempts) {
      switch (attempt.by) {
        case Attempt::By::kLocal:
          plan.local_failures += attempt.repeat;
          plan.local_status =
              static_cast<grpc::StatusCode>(attempt.reply.status);
          break;
        case Attempt::By::kTransport:
          plan.connect_failures += attempt.repeat;
          break;
        case Attempt::By::kServer:
        case Attempt::By::kNobody:
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

  void Refuse(Attempt* attempt) {
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
    absl::Duration longest =
        story_.per_attempt < absl::InfiniteDuration()
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
      const auto duration =
          ParseJsonDuration(text.substr(1, text.size() - 2));
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
    Expected& expected = story_.expected;
    const Reply& last = plan.replies.back();
    if (expected.status == "CANCELLED" && !timeouts_expected()) {
      if (last.hold) {
        plan.cancel_in_flight = true;
      } else if (Retryable(last) && last.status != 1) {
        plan.cancel_in_backoff = true;
      }
    }
    if (expected.status == "DEADLINE_EXCEEDED" && !last.hold &&
        Retryable(last) && last.status != 4) {
      // It passes in a backoff: ours sees that coming.
      report_.Diverges(Rule::kDeadlineFit);
      plan.config.method_guard["jitter"] = Quote("NONE");
      expected.status = std::string(
          StatusCodeName(SanitizeStatusCode(last.status)));
      expected.reason = Reason::kDeadlineTooClose;
    }
  }

  bool timeouts_expected() const {
    return story_.per_attempt < absl::InfiniteDuration() &&
           std::any_of(story_.attempts.begin(), story_.attempts.end(),
                       [](const Attempt& attempt) {
                         return attempt.by == Attempt::By::kNobody;
                       });
  }

  // An attempt timeout is a class of its own: for a method of which nothing is
  // known it ends the call, unless DEADLINE_EXCEEDED is listed; for an
  // idempotent one it is retried like anything else.
  void LookForTimeouts() {
    if (!timeouts_expected()) return;
    report_.Diverges(Rule::kAttemptTimeout);
    Expected idempotent = story_.expected;
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
    Expected unknown;
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
    Expected& expected = story_.expected;
    if (failures >= policy.max_attempts) {
      failures = -1;  // no server ever
      expected = Expected();
      expected.attempts = policy.max_attempts;
      expected.server_calls = 0;
      expected.status = "UNAVAILABLE";
      expected.reason = Reason::kAttemptsExhausted;
      return;
    }
    expected.attempts = failures + 1;
    for (Attempt& attempt : story_.attempts) {
      if (attempt.by == Attempt::By::kServer && attempt.previous == "") {
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
    Expected more;
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
      if (peer_retries && ServerForbidsRetry(hint, PushbackPolicy()) &&
          !hint.stop) {
        report_.Diverges(Rule::kMaxPushback);
        Expected stopped;
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

  void Check(const CallSeen& seen, const Expected& expected,
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
      report_.Check(absl::StrContains(seen.status.error_message(),
                                      *expected.mentions),
                    absl::StrCat(style, ", text: ",
                                 seen.status.error_message()));
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
    for (const Attempt& attempt : story_.attempts) {
      if (attempt.by == Attempt::By::kLocal ||
          attempt.by == Attempt::By::kTransport) {
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

  Story story_;
  Report& report_;
  // What is expected where headers commit, if that is not what ours does else.
  std::optional<Expected> commits_;
};

// Fields of `expect` that are about more than the call's end. False if the
// scenario is of none of these kinds.
bool ReplayExtras(const Fields& scenario, Story story, Report& report) {
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

// Which attempts were retryable, and which were followed by another.
void CheckFlags(const Fields& scenario, const Story& story, Report& report) {
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
  for (const Attempt& attempt : story.attempts) {
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

// A call that is dropped: it ends, and leaves nothing behind.
bool ReplayLifetime(const Fields& scenario, Story story, Report& report) {
  const Fields expect = scenario.Object("expect");
  const bool no_leak = expect.Bool("no_leak").value_or(false);
  const bool completes =
      expect.Bool("status_operation_completes").value_or(false);
  const bool reads = expect.Bool("reads_complete").value_or(false);
  if (!no_leak && !completes && !reads) return false;
  if (!scenario.AllRead()) return true;
  if (ParseOrSkip(story.plan.config, report) == nullptr) return true;
  story.plan.replies.clear();
  for (const Attempt& attempt : story.attempts) {
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

// A stream that the peer refused, by policy and without.
bool ReplayRefused(const Fields& scenario, const Story& story,
                   bool has_policy, Report& report) {
  const bool any =
      std::any_of(story.attempts.begin(), story.attempts.end(),
                  [](const Attempt& attempt) { return attempt.refused; });
  if (!any) return false;
  const Fields expect = scenario.Object("expect");
  expect.Note({"delays"});  // by the names of the policy's fields
  const std::vector<double> previous = expect.Numbers("previous_attempts");
  const auto committed_at = expect.Int("committed_at_attempt");
  if (!scenario.AllRead()) return true;

  CallPlan plan = story.plan;
  plan.replies.clear();
  plan.config = ConfigText();
  bool refused_is_listed = !has_policy;  // UNAVAILABLE, by default
  bool listed = true;
  for (const Attempt& attempt : story.attempts) {
    Reply reply = attempt.reply;
    if (reply.hold) reply = Reply::Ok();  // nothing more is said of it
    if (attempt.refused) {
      listed = reply.status == grpc::StatusCode::UNAVAILABLE;
      reply = Reply::Refuse();
    }
    plan.replies.push_back(reply);
  }
  // Without an ordinary retry in it there need be no policy.
  const bool policy = has_policy || !story.attempts[0].refused;
  if (policy) {
    plan.config.retry_policy["maxAttempts"] = "5";
    // "retryable" is ABORTED here, so that a refusal may be listed, or not.
    plan.config.retry_policy["retryableStatusCodes"] =
        listed ? R"(["ABORTED", "UNAVAILABLE"])" : R"(["ABORTED"])";
    FillRetryPolicy(&plan.config);
    refused_is_listed = listed;
    for (size_t i = 0; i < plan.replies.size(); ++i) {
      if (!story.attempts[i].refused &&
          plan.replies[i].status == grpc::StatusCode::UNAVAILABLE) {
        plan.replies[i].status = grpc::StatusCode::ABORTED;
      }
    }
  }
  if (refused_is_listed) report.Diverges(Rule::kRefusedOnce);
  for (const Style style : {Style::kSync, Style::kCallback}) {
    const CallSeen seen = MakeCall(plan, style);
    const std::string name = end2end::StyleName(style);
    size_t resends = 0;
    for (size_t i = 0; i < seen.decisions.size(); ++i) {
      const testing::RecordedDecision& decision = seen.decisions[i];
      if (!decision.resend) continue;
      ++resends;
      report.Near(name + " delay of the re-send", decision.delay,
                  absl::ZeroDuration());
    }
    report.Equal(name + " re-sends", resends, refused_is_listed ? 1 : 0);
    if (story.expected.attempts.has_value()) {
      report.Equal(name + " attempts", seen.snapshot.attempts,
                   *story.expected.attempts);
    }
    if (committed_at.has_value()) {
      report.Equal(name + " attempts", seen.snapshot.attempts, *committed_at);
    }
    for (size_t i = 0; i < previous.size(); ++i) {
      if (!report.Check(i < seen.attempts.size(), "too few attempts")) break;
      const std::string header =
          seen.attempts[i].One("grpc-previous-rpc-attempts");
      report.Equal(name + " header", header.empty() ? "0" : header,
                   absl::StrCat(previous[i]));
    }
  }
  return true;
}

// The same call for an idempotent method and for one that is not.
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
    plan.config.retry_policy["maxAttempts"] = absl::StrCat(most);
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

}  // namespace

void ReplayCall(const Table& /*table*/, const Fields& scenario,
                Report& report) {
  if (scenario.Has("cases")) {
    ReplayIdempotency(scenario, report);
    return;
  }
  StoryReader reader(scenario, report);
  Story story = reader.Read();
  SupplyPolicy(reader, &story);
  const Fields expect = scenario.Object("expect");
  if (!report.applicable()) return;
  if (ReplayRefused(scenario, story, reader.has_policy(), report) ||
      ReplayLifetime(scenario, story, report) ||
      ReplayExtras(scenario, story, report)) {
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
      Attempt attempt;
      const bool ok = story.expected.status == "OK" &&
                      i + 1 == *story.expected.attempts;
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
