// `config_validation`: what is accepted, what is refused, and where the errors
// point.

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "retry_guard/config/scalars.h"
#include "retry_guard/policy/status_codes.h"
#include "tests/conformance/config_text.h"
#include "tests/conformance/kinds.h"

namespace retry_guard::conformance {
namespace {

using Paths = std::set<std::string>;

constexpr char kMethod[] = "methodConfig[0].";

const Json* Member(const Json& object, const char* key) {
  if (!object.IsObject()) return nullptr;
  const auto found = object.FindMember(key);
  return found == object.MemberEnd() ? nullptr : &found->value;
}

std::optional<absl::Duration> DurationOf(const Json* json) {
  if (json == nullptr || !json->IsString()) return std::nullopt;
  return ParseJsonDuration(json->GetString());
}

std::optional<double> NumberOf(const Json* json) {
  double number = 0;
  if (json == nullptr) return std::nullopt;
  if (json->IsNumber()) return json->GetDouble();
  if (json->IsString() && absl::SimpleAtod(json->GetString(), &number)) {
    return number;
  }
  return std::nullopt;
}

bool IsCodeForUs(const Json& element) {
  if (element.IsInt()) return element.GetInt() >= 1 && element.GetInt() <= 16;
  if (!element.IsString()) return false;
  const auto code = StatusCodeFromName(element.GetString());
  return code.has_value() && *code != absl::StatusCode::kOk;
}

bool IsOk(const Json& element) {
  return (element.IsInt() && element.GetInt() == 0) ||
         (element.IsString() &&
          StatusCodeFromName(element.GetString()) == absl::StatusCode::kOk);
}

// Where ours and a peer's parser differ by rule. By the text of the config, not
// by what our parser says of it.
class Differences {
 public:
  // Refused by ours, whatever the peer does.
  const Paths& strict() const { return strict_; }
  // Refused by a peer, not by ours.
  const Paths& lenient() const { return lenient_; }

  // `experiment_off`: the peer does not read perAttemptRecvTimeout.
  void Look(const Json& input, bool experiment_off) {
    experiment_off_ = experiment_off;
    if (const Json* const policy = Member(input, "retryPolicy")) {
      LookAtPolicy(*policy);
    }
    if (const Json* const throttle = Member(input, "retryThrottling")) {
      LookAtThrottle(*throttle);
    }
  }

 private:
  void LookAtPolicy(const Json& policy) {
    const std::string path = absl::StrCat(kMethod, "retryPolicy.");
    UnknownKeys(
        policy, path,
        {"maxAttempts", "initialBackoff", "maxBackoff", "backoffMultiplier",
         "retryableStatusCodes", "perAttemptRecvTimeout"});
    const auto initial = DurationOf(Member(policy, "initialBackoff"));
    const auto max = DurationOf(Member(policy, "maxBackoff"));
    if (initial.has_value() && max.has_value() && *initial > *max &&
        *max > absl::ZeroDuration()) {
      strict_.insert(path + "maxBackoff");
    }
    const Json* const codes = Member(policy, "retryableStatusCodes");
    const Json* const attempt = Member(policy, "perAttemptRecvTimeout");
    if (experiment_off_ && attempt != nullptr) {
      const auto timeout = DurationOf(attempt);
      if (!timeout.has_value() || *timeout <= absl::ZeroDuration()) {
        strict_.insert(path + "perAttemptRecvTimeout");
      }
      if (codes == nullptr) lenient_.insert(path + "retryableStatusCodes");
    }
    if (codes == nullptr || !codes->IsArray()) return;
    if (codes->Empty()) {
      strict_.insert(path + "retryableStatusCodes");
      return;
    }
    // A peer that drops the bad elements may find the list empty then.
    lenient_.insert(path + "retryableStatusCodes");
    for (rapidjson::SizeType i = 0; i < codes->Size(); ++i) {
      const std::string element =
          absl::StrCat(path, "retryableStatusCodes[", i, "]");
      if (IsCodeForUs((*codes)[i])) lenient_.insert(element);
      if (IsOk((*codes)[i])) strict_.insert(element);
    }
  }

  void LookAtThrottle(const Json& throttle) {
    UnknownKeys(throttle, "retryThrottling.", {"maxTokens", "tokenRatio"});
    const auto tokens = NumberOf(Member(throttle, "maxTokens"));
    if (tokens.has_value() && *tokens > 0 &&
        (*tokens > 1000 || *tokens < 1 || std::floor(*tokens) != *tokens)) {
      strict_.insert("retryThrottling.maxTokens");
    }
    const auto ratio = NumberOf(Member(throttle, "tokenRatio"));
    if (ratio.has_value() && *ratio > 0 && *ratio < 0.001) {
      strict_.insert("retryThrottling.tokenRatio");
    }
  }

  void UnknownKeys(const Json& object, const std::string& path,
                   const std::set<std::string>& known) {
    if (!object.IsObject()) return;
    for (const auto& member : object.GetObject()) {
      const std::string key = member.name.GetString();
      if (known.count(key) == 0) strict_.insert(path + key);
    }
  }

  bool experiment_off_ = false;
  Paths strict_;
  Paths lenient_;
};

// Puts the fragments of `input` where they belong; false: not applicable.
bool PutTogether(const Fields& scenario, const Json& input, ConfigText* config,
                 Report& report) {
  for (const auto& [key, text] : MembersOf(input)) {
    if (key == "retryPolicy" || key == "hedgingPolicy" || key == "timeout" ||
        key == "waitForReady" || key == "name") {
      config->method[key] = text;
    } else if (key == "retryThrottling" || key == "methodConfig") {
      config->top[key] = text;
    } else {
      report.NotApplicable(
          absl::StrCat("no replay knows ", scenario.Path("input."), key));
      return false;
    }
  }
  return true;
}

// What our words for an error of the kind that `subject` describes contain;
// empty if the subject is not one of these kinds.
std::vector<std::string> OurWords(absl::string_view subject) {
  if (absl::StrContains(subject, "missing")) {
    // "(unit s missing)" is another matter.
    if (absl::StrContains(subject, "unit")) return {"is no duration"};
    return {"missing; write"};
  }
  if (absl::StrContains(subject, "empty")) {
    return {"an empty list", "missing; write"};
  }
  if (absl::StartsWith(subject, "not a")) {
    return {" is no ", " is out of range"};
  }
  if (absl::StartsWith(subject, "must be")) {
    return {" is out of range", " is less than ", " is no "};
  }
  return {};
}

class ConfigReplay {
 public:
  ConfigReplay(const ConfigText& config, const Json& input, bool experiment_off,
               Report& report)
      : report_(report), parsed_(ParseServiceConfig(config.ToJson())) {
    for (const auto& [path, text] : ErrorLines(parsed_.status())) {
      ours_.insert(path);
      texts_.emplace(path, text);
    }
    differences_.Look(input, experiment_off);
    const Json* const policy = Member(input, "retryPolicy");
    has_attempt_timeout_ = policy != nullptr &&
                           Member(*policy, "perAttemptRecvTimeout") != nullptr;
  }

  void ExpectValid(bool valid) {
    const Paths& strict = differences_.strict();
    if (valid && !strict.empty()) {
      report_.Diverges(Rule::kStrictConfig);
      CheckPaths(strict);
      return;
    }
    report_.Equal("valid", parsed_.ok(), valid);
    if (valid && !parsed_.ok()) {
      report_.Check(false, std::string(parsed_.status().message()));
    }
  }

  void ExpectErrors(const std::map<std::string, std::string>& errors) {
    Paths expected;
    for (const auto& [path, subject] : errors) expected.insert(path);
    Paths ours = expected;
    for (const std::string& path : differences_.lenient()) {
      if (ours.erase(path) != 0) report_.Diverges(Rule::kIntegerCodes);
    }
    for (const std::string& path : differences_.strict()) {
      if (ours.insert(path).second) report_.Diverges(Rule::kStrictConfig);
    }
    CheckPaths(ours);
    for (const auto& [path, subject] : errors) {
      if (ours.count(path) != 0) CheckSubject(path, subject);
    }
  }

  void ExpectStatus(const std::string& name) {
    if (parsed_.ok()) return;  // said by ExpectValid
    report_.Equal("status",
                  std::string(StatusCodeName(parsed_.status().code())), name);
  }

  void ExpectParsed(const Fields& parsed);

  const absl::StatusOr<std::shared_ptr<const ServiceConfig>>& parsed() const {
    return parsed_;
  }

 private:
  void CheckPaths(const Paths& expected) {
    report_.Equal("errors at", absl::StrJoin(ours_, ", "),
                  absl::StrJoin(expected, ", "));
  }

  void CheckSubject(const std::string& path, const std::string& subject) {
    const std::vector<std::string> words = OurWords(subject);
    if (words.empty()) return;
    bool said = false;
    const auto [first, last] = texts_.equal_range(path);
    for (auto it = first; it != last; ++it) {
      for (const std::string& word : words) {
        said |= absl::StrContains(it->second, word);
      }
    }
    report_.Check(said, absl::StrCat(path, ": \"", subject, "\" is not said"));
  }

  Report& report_;
  absl::StatusOr<std::shared_ptr<const ServiceConfig>> parsed_;
  Differences differences_;
  bool has_attempt_timeout_ = false;
  Paths ours_;
  std::multimap<std::string, std::string> texts_;
};

void ConfigReplay::ExpectParsed(const Fields& parsed) {
  if (!parsed_.ok()) {
    for (const std::string& key : parsed.Keys()) parsed.Note({key.c_str()});
    return;  // said by ExpectValid
  }
  const MethodPolicy& method = (*parsed_)->ForMethod("/a.B/C");
  const GuardPolicy& guard = (*parsed_)->guard();
  if (const auto n = parsed.Int("maxAttempts")) {
    report_.Equal("maxAttempts", method.max_attempts, *n);
  }
  if (const auto t = parsed.Time("initialBackoff")) {
    report_.Near("initialBackoff", method.backoff.initial, *t);
  }
  if (const auto t = parsed.Time("maxBackoff")) {
    report_.Near("maxBackoff", method.backoff.max, *t);
  }
  if (const auto m = parsed.Number("backoffMultiplier")) {
    report_.Check(std::abs(method.backoff.multiplier - *m) < 1e-6 * *m,
                  absl::StrCat("multiplier ", method.backoff.multiplier));
  }
  if (const auto t = parsed.Time("timeout")) {
    report_.Near("timeout", method.timeout.value_or(absl::InfiniteDuration()),
                 *t);
  }
  if (parsed.IsNull("perAttemptRecvTimeout_ms")) {
    if (has_attempt_timeout_) report_.Diverges(Rule::kAttemptTimeoutIsRead);
    report_.Equal("perAttemptRecvTimeout was read",
                  method.per_attempt_timeout != absl::InfiniteDuration(),
                  has_attempt_timeout_);
  } else if (const auto t = parsed.Time("perAttemptRecvTimeout")) {
    report_.Near("perAttemptRecvTimeout", method.per_attempt_timeout, *t);
  }
  if (parsed.Has("retryableStatusCodes")) {
    StatusCodeSet codes;
    for (const std::string& name : parsed.Texts("retryableStatusCodes")) {
      codes.Add(StatusCodeFromName(name).value_or(absl::StatusCode::kOk));
    }
    report_.Check(method.retryable_codes == codes, "other codes");
  }
  if (const auto wait = parsed.Bool("waitForReady")) {
    report_.Equal("waitForReady", method.wait_for_ready.value_or(false), *wait);
  }
  const ThrottlePolicy throttle = guard.throttle.value_or(ThrottlePolicy());
  if (const auto n = parsed.Int("maxTokens")) {
    report_.Equal("maxTokens", throttle.max_milli_tokens, *n * 1000);
  }
  if (const auto r = parsed.Number("tokenRatio")) {
    report_.Equal("tokenRatio", throttle.milli_token_ratio,
                  std::llround(*r * 1000));
  }
  for (const char* const key : {"maxMilliTokens", "max_milli_tokens"}) {
    if (const auto n = parsed.Int(key)) {
      report_.Equal(key, throttle.max_milli_tokens, *n);
    }
  }
  for (const char* const key : {"milliTokenRatio", "milli_token_ratio"}) {
    if (const auto n = parsed.Int(key)) {
      report_.Equal(key, throttle.milli_token_ratio, *n);
    }
  }
}

void ReplayInput(const Fields& scenario, Report& report) {
  const Json* const input = scenario.Whole("input");
  const Fields expect = scenario.Object("expect");
  const auto valid = expect.Bool("valid");
  const auto status = expect.Text("status");
  const Fields parsed = expect.Object("parsed");
  std::map<std::string, std::string> errors;
  if (const Json* const list = expect.Whole("errors")) {
    for (const Json& error : list->GetArray()) {
      if (!error.IsArray() || error.Size() != 2 || !error[0].IsString() ||
          !error[1].IsString()) {
        report.NotApplicable("expect.errors is no list of pairs");
        return;
      }
      errors.emplace(error[0].GetString(), error[1].GetString());
    }
  }
  // What the peer has to switch on for this key.
  const std::string experiment = scenario.Text("switch").value_or("");
  const bool experiment_off = absl::EndsWith(experiment, " off");
  expect.Note({"subject"});  // the rule in words
  ConfigText config;
  if (!PutTogether(scenario, *input, &config, report)) return;
  const Json* const policy = Member(*input, "retryPolicy");
  if (experiment_off && policy != nullptr &&
      Member(*policy, "perAttemptRecvTimeout") != nullptr) {
    report.Diverges(Rule::kAttemptTimeoutIsRead);
  }
  ConfigReplay replay(config, *input, experiment_off, report);
  if (!valid.has_value()) report.NotApplicable("expect.valid is missing");
  replay.ExpectParsed(parsed);
  if (!scenario.AllRead()) return;
  if (errors.empty()) {
    replay.ExpectValid(*valid);
  } else {
    replay.ExpectErrors(errors);
  }
  if (status.has_value() && !*valid) replay.ExpectStatus(*status);
}

// Each case is a set of keys of retryPolicy and retryThrottling, the others
// being good ones.
void ReplayCases(const Fields& scenario, Report& report) {
  struct Case {
    ConfigText config;
    std::optional<bool> valid;
    std::optional<double> effective_ratio;
    rapidjson::Document input;
  };
  std::vector<Case> cases;
  for (const Fields& fields : scenario.Objects("cases")) {
    Case one;
    std::map<std::string, std::string> throttle;
    for (const std::string& key : fields.Keys()) {
      const char* const k = key.c_str();
      if (key == "tokenRatio" || key == "maxTokens") {
        throttle[key] = ToText(*fields.Whole(k));
      } else if (key == "maxAttempts" || key == "initialBackoff" ||
                 key == "maxBackoff" || key == "backoffMultiplier" ||
                 key == "retryableStatusCodes") {
        one.config.retry_policy[key] = ToText(*fields.Whole(k));
      }
    }
    one.valid = fields.Bool("valid");
    one.effective_ratio = fields.Number("effective");
    fields.Note({"note"});
    if (!throttle.empty()) {
      throttle.emplace("maxTokens", "10");
      throttle.emplace("tokenRatio", "0.1");
      std::string text;
      for (const auto& [key, value] : throttle) {
        absl::StrAppend(&text, text.empty() ? "{" : ", ", Quote(key), ": ",
                        value);
      }
      one.config.top["retryThrottling"] = text + "}";
    }
    if (!one.config.retry_policy.empty()) FillRetryPolicy(&one.config);
    one.input.Parse(
        absl::StrCat(
            "{\"retryThrottling\": ",
            throttle.empty() ? "{}" : one.config.top["retryThrottling"], "}")
            .c_str());
    cases.push_back(std::move(one));
  }
  if (!scenario.AllRead()) return;
  for (Case& one : cases) {
    ConfigReplay replay(one.config, one.input, false, report);
    if (one.valid.has_value()) {
      replay.ExpectValid(*one.valid);
    } else {
      // The text leaves it open; ours is the strict answer.
      report.Diverges(Rule::kStrictConfig);
      report.Check(!replay.parsed().ok(), "a ratio that is cut to zero passed");
    }
    if (one.effective_ratio.has_value() && replay.parsed().ok()) {
      report.Equal("effective ratio in thousandths",
                   (*replay.parsed())->guard().throttle->milli_token_ratio,
                   std::llround(*one.effective_ratio * 1000));
    }
  }
}

// A backoff as other systems are given it: from min to max.
void ReplayBackoffRange(const Fields& scenario, Report& report) {
  const Fields fields = scenario.Object("config");
  const auto min = fields.Time("min");
  const auto max = fields.Time("max");
  const auto valid = scenario.Object("expect").Bool("valid");
  if (fields.Has("jitter")) {
    report.NotApplicable("config.jitter: ours is a name, not a number");
  }
  if (!scenario.AllRead()) return;
  if (!valid.has_value() || !max.has_value()) {
    report.NotApplicable("no range to check");
    return;
  }
  ConfigText config;
  const absl::Duration initial = min.value_or(absl::Milliseconds(1));
  config.retry_policy["initialBackoff"] = QuoteDuration(initial);
  config.retry_policy["maxBackoff"] = QuoteDuration(*max);
  FillRetryPolicy(&config);
  const bool ours = ParseServiceConfig(config.ToJson()).ok();
  if (*valid && initial == absl::ZeroDuration()) {
    report.Diverges(Rule::kPositiveDuration);
    report.Equal("valid", ours, false);
    return;
  }
  report.Equal("valid", ours, *valid);
}

}  // namespace

void ReplayConfig(const Table& /*table*/, const Fields& scenario,
                  Report& report) {
  if (scenario.IsObject("input")) {
    ReplayInput(scenario, report);
  } else if (scenario.IsArray("cases")) {
    ReplayCases(scenario, report);
  } else if (scenario.IsObject("config")) {
    ReplayBackoffRange(scenario, report);
  } else {
    report.NotApplicable("neither input nor cases");
  }
}

}  // namespace retry_guard::conformance
