#include "tests/conformance/call_story.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace retry_guard::conformance {
namespace {

using end2end::Style;

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

class StoryReader {
 public:
  StoryReader(const Fields& scenario, Report& report)
      : scenario_(scenario), report_(report) {}

  CallStory Read() {
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
      if (std::abs(schedule[i + 1] / schedule[i] - schedule[1] / schedule[0]) >
          1e-9) {
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
        absl::StrCat(std::clamp<int64_t>(attempts, 2, 5));
    story_.plan.config.method_guard["maxAttempts"] = absl::StrCat(attempts);
  }

  void ReadAttempt(const Fields& fields) {
    StoryAttempt attempt;
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
        if (reply.status != 0 && !StatusCodeFromName(*word).has_value()) {
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
        report_.NotApplicable(
            absl::StrCat(fields.Path("progress"), " ", *progress));
      }
    }
    fields.Note({"sends"});
    ReadNetworkState(fields, &attempt);
    story_.attempts.push_back(std::move(attempt));
  }

  void ReadBy(const Fields& fields, StoryAttempt* attempt) {
    const std::string by = fields.Text("by").value_or("server");
    const auto reached = fields.Bool("reached_server");
    if (by == "server") {
      attempt->by = StoryAttempt::By::kServer;
    } else if (by == "local") {
      attempt->by = StoryAttempt::By::kLocal;
    } else if (by == "transport") {
      attempt->by = StoryAttempt::By::kTransport;
    } else if (by == "no_response" || by == "in_flight") {
      attempt->by = StoryAttempt::By::kNobody;
      attempt->reply = Reply::Hold();
    } else {
      report_.NotApplicable(absl::StrCat(fields.Path("by"), " ", by));
    }
    const bool ours_reaches = attempt->by == StoryAttempt::By::kServer ||
                              attempt->by == StoryAttempt::By::kNobody;
    if (reached.has_value() && *reached != ours_reaches) {
      report_.NotApplicable(
          absl::StrCat(fields.Path("reached_server"), " of ", by));
    }
  }

  void ReadNetworkState(const Fields& fields, StoryAttempt* attempt) {
    const auto state = fields.Text("network_state");
    if (!state.has_value() || *state == "not sent on wire") return;
    if (*state == "not seen by server") {
      attempt->by = StoryAttempt::By::kServer;
      attempt->refused = true;
      attempt->reply.status = grpc::StatusCode::UNAVAILABLE;
    } else {
      report_.NotApplicable(
          absl::StrCat(fields.Path("network_state"), " ", *state));
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

  void ReadStream(const Fields& fields, StoryAttempt* attempt) {
    for (const char* const key : {"recv", "request_messages_seen"}) {
      if (!fields.Has(key)) continue;
      attempt->reads = fields.Texts(key);
      story_.streams = true;
    }
    if (!fields.Has("send")) return;
    attempt->writes = fields.Texts("send");
    story_.streams = true;
  }

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
      StoryAttempt attempt;
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
        story_.awaits_headers = true;
      } else if (absl::StrContains(event, "custom metadata")) {
        story_.plan.metadata = {
            {"foo", "bar"},
            {"long-" + std::string(200, 'k'), std::string(1000, 'v')}};
      } else if (!absl::StartsWith(event, "send ") &&
                 !absl::StartsWith(event, "read ") &&
                 !absl::StartsWith(event, "close") &&
                 event != "status received while nobody waits for it" &&
                 event != "ask for message and status" &&
                 event != "release them after the send completes") {
        report_.NotApplicable(absl::StrCat("client_events[] ", event));
      }
    }
    const std::vector<double> bytes =
        scenario_.Numbers("request_message_bytes");
    if (bytes.size() > 1) {
      report_.NotApplicable("request_message_bytes of several messages");
    }
    if (bytes.size() == 1) {
      story_.plan.request_bytes = static_cast<size_t>(bytes[0]);
    }
  }

  void ReadExpect(const Fields& expect) {
    CallEnd& expected = story_.expected;
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
  CallStory story_;
  bool has_policy_ = false;
  bool no_policy_ = false;  // the scenario says that there is none
  bool scripted_ = false;
  std::optional<int64_t> limit_;
};

// Fills in the policy that a scenario without one means: the codes that it sees
// retried, and as many attempts as it shows.
void SupplyPolicy(const StoryReader& reader, CallStory* story) {
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
    const bool exhausted = std::find(codes.begin(), codes.end(),
                                     absl::StrCat(last)) != codes.end();
    const auto n = static_cast<int64_t>(attempts.size()) + (exhausted ? 0 : 1);
    config.retry_policy["maxAttempts"] =
        absl::StrCat(std::clamp<int64_t>(n, 2, 5));
    config.method_guard["maxAttempts"] = absl::StrCat(n);
  }
  FillRetryPolicy(&config);
}

}  // namespace

CallStory ReadCallStory(const Fields& scenario, Report& report) {
  StoryReader reader(scenario, report);
  CallStory story = reader.Read();
  story.has_policy = reader.has_policy();
  SupplyPolicy(reader, &story);
  return story;
}

std::string CodeName(const grpc::Status& status) {
  return std::string(StatusCodeName(SanitizeStatusCode(status.error_code())));
}

}  // namespace retry_guard::conformance
