#include "print.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "rapidjson/prettywriter.h"
#include "rapidjson/stringbuffer.h"

namespace policy_check {
namespace {

using Writer = rapidjson::PrettyWriter<rapidjson::StringBuffer>;

std::string Title(const std::string& name) {
  if (name.empty()) return "every other method";
  if (name.back() == '/') return absl::StrCat(name, "* (every other method)");
  return name;
}

std::string Time(absl::Duration duration) {
  return duration == absl::InfiniteDuration() ? "no end"
                                              : absl::FormatDuration(duration);
}

void WriteTime(Writer& writer, absl::Duration duration) {
  if (duration == absl::InfiniteDuration()) {
    writer.Null();
  } else {
    writer.Double(absl::ToDoubleSeconds(duration));
  }
}

void WriteStrings(Writer& writer, const std::vector<std::string>& strings) {
  writer.StartArray();
  for (const std::string& s : strings) writer.String(s.c_str());
  writer.EndArray();
}

void WriteMethod(Writer& writer, const MethodAnalysis& method) {
  writer.StartObject();
  writer.Key("name");
  writer.String(method.name.c_str());
  writer.Key("retried_codes");
  WriteStrings(writer, method.retried_codes);
  writer.Key("repeat");
  writer.String(method.repeat.c_str());
  writer.Key("max_attempts");
  writer.Int(method.max_attempts);
  writer.Key("jitter");
  writer.String(method.jitter.c_str());
  writer.Key("longest_waits_s");
  writer.StartArray();
  for (absl::Duration wait : method.ladder) WriteTime(writer, wait);
  writer.EndArray();
  writer.Key("deadline_s");
  WriteTime(writer, method.deadline.value_or(absl::InfiniteDuration()));
  writer.Key("worst_case_s");
  WriteTime(writer, method.worst_case);
  writer.Key("worst_case_with_deadline_s");
  WriteTime(writer, method.worst_case_with_deadline);
  writer.Key("longest_hinted_wait_s");
  WriteTime(writer, method.longest_hinted_wait);
  writer.Key("amplification");
  writer.StartObject();
  writer.Key("this_layer");
  writer.Int(method.amplification.this_layer);
  writer.Key("two_layers_without_marker");
  writer.Int(method.amplification.two_layers_without_marker);
  writer.Key("three_layers_without_marker");
  writer.Int(method.amplification.three_layers_without_marker);
  writer.Key("any_layers_with_marker");
  writer.Int(method.amplification.any_layers_with_marker);
  writer.EndObject();
  writer.Key("warnings");
  WriteStrings(writer, method.warnings);
  writer.EndObject();
}

void AppendMethod(const MethodAnalysis& method, std::string& text) {
  absl::StrAppend(&text, Title(method.name), "\n");
  if (method.max_attempts == 1) {
    absl::StrAppend(&text, "  retried      never\n");
  } else {
    absl::StrAppend(&text, "  retried      ",
                    absl::StrJoin(method.retried_codes, ", "), "\n",
                    "               ", method.repeat, "\n");
    absl::StrAppend(&text, "  waits        at most ",
                    absl::StrJoin(method.ladder, ", ",
                                  [](std::string* out, absl::Duration wait) {
                                    absl::StrAppend(out,
                                                    absl::FormatDuration(wait));
                                  }),
                    " (", method.jitter, " jitter); up to ",
                    absl::FormatDuration(method.longest_hinted_wait),
                    " each if the server asks for it\n");
  }
  absl::StrAppend(&text, "  attempts     ", method.max_attempts, "\n");
  absl::StrAppend(&text, "  worst case   ", Time(method.worst_case),
                  " without a deadline, ",
                  method.deadline.has_value()
                      ? absl::StrCat(Time(method.worst_case_with_deadline),
                                     " with ", Time(*method.deadline))
                      : std::string("and there is none"),
                  "\n");
  const Amplification& a = method.amplification;
  absl::StrAppendFormat(
      &text,
      "  amplified    x%d by this layer; 2 layers x%d, 3 layers x%d if each "
      "retries, x%d with the layer rule\n",
      a.this_layer, a.two_layers_without_marker, a.three_layers_without_marker,
      a.any_layers_with_marker);
  for (const std::string& warning : method.warnings) {
    absl::StrAppend(&text, "  warning      ", warning, "\n");
  }
  text += '\n';
}

}  // namespace

std::string ToText(const Analysis& analysis) {
  std::string text;
  for (const MethodAnalysis& method : analysis.methods) {
    AppendMethod(method, text);
  }
  absl::StrAppend(&text, "all methods together\n  budget       ",
                  analysis.budget, "\n  breaker      ", analysis.breaker, "\n");
  for (const std::string& warning : analysis.warnings) {
    absl::StrAppend(&text, "  warning      ", warning, "\n");
  }
  return text;
}

std::string ToJson(const Analysis& analysis) {
  rapidjson::StringBuffer buffer;
  Writer writer(buffer);
  writer.StartObject();
  writer.Key("ok");
  writer.Bool(true);
  writer.Key("budget");
  writer.String(analysis.budget.c_str());
  writer.Key("breaker");
  writer.String(analysis.breaker.c_str());
  writer.Key("warnings");
  WriteStrings(writer, analysis.warnings);
  writer.Key("methods");
  writer.StartArray();
  for (const MethodAnalysis& method : analysis.methods) {
    WriteMethod(writer, method);
  }
  writer.EndArray();
  writer.EndObject();
  return absl::StrCat(buffer.GetString(), "\n");
}

std::string ErrorsToJson(const absl::Status& status) {
  const std::vector<std::string> errors =
      absl::StrSplit(status.message(), '\n', absl::SkipEmpty());
  rapidjson::StringBuffer buffer;
  Writer writer(buffer);
  writer.StartObject();
  writer.Key("ok");
  writer.Bool(false);
  writer.Key("errors");
  WriteStrings(writer, errors);
  writer.EndObject();
  return absl::StrCat(buffer.GetString(), "\n");
}

}  // namespace policy_check
