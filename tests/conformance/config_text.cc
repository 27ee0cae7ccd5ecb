#include "tests/conformance/config_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "retry_guard/config/scalars.h"

namespace retry_guard::conformance {
namespace {

std::string Object(const std::map<std::string, std::string>& members) {
  return absl::StrCat("{",
                      absl::StrJoin(members, ", ",
                                    [](std::string* out, const auto& member) {
                                      absl::StrAppend(out, Quote(member.first),
                                                      ": ", member.second);
                                    }),
                      "}");
}

}  // namespace

std::string ConfigText::ToJson() const {
  std::map<std::string, std::string> methods = method;
  methods.emplace("name", "[{}]");
  if (!retry_policy.empty()) {
    methods.emplace("retryPolicy", Object(retry_policy));
  }
  if (!method_guard.empty()) {
    methods.emplace("retryGuard", Object(method_guard));
  }
  std::map<std::string, std::string> all = top;
  all.emplace("methodConfig", absl::StrCat("[", Object(methods), "]"));
  return Object(all);
}

std::string Quote(absl::string_view text) {
  const Json json(rapidjson::StringRef(
      text.data(), static_cast<rapidjson::SizeType>(text.size())));
  return ToText(json);
}

std::string QuoteDuration(absl::Duration duration) {
  return Quote(FormatJsonDuration(duration));
}

void FillRetryPolicy(ConfigText* config) {
  config->retry_policy.emplace("maxAttempts", "3");
  config->retry_policy.emplace("initialBackoff", R"("0.001s")");
  config->retry_policy.emplace("maxBackoff", R"("1s")");
  config->retry_policy.emplace("backoffMultiplier", "1");
  config->retry_policy.emplace("retryableStatusCodes", R"(["UNAVAILABLE"])");
}

std::map<std::string, std::string> MembersOf(const Json& object) {
  std::map<std::string, std::string> members;
  if (!object.IsObject()) return members;
  for (const auto& member : object.GetObject()) {
    members.emplace(
        std::string(member.name.GetString(), member.name.GetStringLength()),
        ToText(member.value));
  }
  return members;
}

std::vector<std::pair<std::string, std::string>> ErrorLines(
    const absl::Status& status) {
  std::vector<std::pair<std::string, std::string>> lines;
  if (status.ok()) return lines;
  for (absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    lines.push_back(absl::StrSplit(line, absl::MaxSplits(": ", 1)));
  }
  return lines;
}

std::shared_ptr<const ServiceConfig> ParseOrSkip(const ConfigText& config,
                                                 Report& report) {
  auto parsed = ParseServiceConfig(config.ToJson());
  if (parsed.ok()) return *std::move(parsed);
  report.NotApplicable(absl::StrCat("ours takes no such policy: ",
                                    ErrorLines(parsed.status()).front().first));
  return nullptr;
}

}  // namespace retry_guard::conformance
