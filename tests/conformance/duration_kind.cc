// `parse` of durations as the service config spells them.

#include <string>

#include "absl/strings/str_cat.h"
#include "retry_guard/config/scalars.h"
#include "tests/conformance/config_text.h"
#include "tests/conformance/kinds.h"

namespace retry_guard::conformance {
namespace {

// As the parser of the service config takes it.
bool ConfigTakes(const std::string& json) {
  ConfigText config;
  config.method["timeout"] = json;
  return ParseServiceConfig(config.ToJson()).ok();
}

}  // namespace

void ReplayDuration(const Table& /*table*/, const Fields& scenario,
                    Report& report) {
  const Fields input = scenario.Object("input");
  const Json* const json = input.Whole("json");
  const auto raw = input.Text("json_raw");
  const Fields expect = scenario.Object("expect");
  const bool refused = expect.Has("error");
  expect.Note({"error"});
  const bool saturated = expect.Bool("saturated").value_or(false);
  const auto nanoseconds =
      expect.Has("nanoseconds") ? expect.Number("nanoseconds") : std::nullopt;
  if (!scenario.AllRead()) return;
  if (json == nullptr && !raw.has_value()) {
    report.NotApplicable("input.json is null");
    return;
  }

  const std::string text = raw.has_value() ? *raw : ToText(*json);
  if (refused) {
    report.Check(!ConfigTakes(text), absl::StrCat("taken: ", text));
    return;
  }
  if (!nanoseconds.has_value() || json == nullptr || !json->IsString()) {
    report.NotApplicable("expect has neither error nor nanoseconds");
    return;
  }
  const auto duration = ParseJsonDuration(
      absl::string_view(json->GetString(), json->GetStringLength()));
  if (!report.Check(duration.has_value(), absl::StrCat("refused: ", text))) {
    return;
  }
  // Cut to 64 bits by Abseil, as the peer does it.
  report.Check(
      static_cast<double>(absl::ToInt64Nanoseconds(*duration)) == *nanoseconds,
      absl::StrCat("read as ", absl::FormatDuration(*duration)));
  if (saturated) {
    report.Diverges(Rule::kExactDuration);
    // Written out again it is what it was.
    const absl::Duration absolute = absl::AbsDuration(*duration);
    report.Check(
        ParseJsonDuration(FormatJsonDuration(absolute)) == absolute &&
            absolute >= absl::Nanoseconds(std::numeric_limits<int64_t>::max()),
        "was cut");
  }
  // In a policy a duration is more than nothing.
  report.Equal("taken by the config", ConfigTakes(text),
               *duration > absl::ZeroDuration());
}

}  // namespace retry_guard::conformance
