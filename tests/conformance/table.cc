#include "tests/conformance/table.h"

#include <rapidjson/error/en.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace retry_guard::conformance {
namespace {

constexpr char kSchema[] = "conformance-scenarios/1";

absl::Status Bad(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Table>> ReadTable(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return Bad(path, "cannot be read");

  auto table = std::make_unique<Table>();
  table->name = std::filesystem::path(path).stem().string();
  rapidjson::Document& document = table->document;
  document.Parse<rapidjson::kParseFullPrecisionFlag>(text.str().c_str());
  if (document.HasParseError()) {
    return Bad(path, absl::StrCat(
                         rapidjson::GetParseError_En(document.GetParseError()),
                         " At byte ", document.GetErrorOffset(), "."));
  }
  if (!document.IsObject() || !document.HasMember("schema") ||
      !document["schema"].IsString() ||
      std::string(document["schema"].GetString()) != kSchema) {
    return Bad(path, absl::StrCat("is not of schema ", kSchema));
  }
  if (!document.HasMember("scenarios") || !document["scenarios"].IsArray()) {
    return Bad(path, "has no list of scenarios");
  }
  for (const auto& scenario : document["scenarios"].GetArray()) {
    if (!scenario.IsObject()) return Bad(path, "has a scenario that is none");
    table->scenarios.push_back(&scenario);
  }
  if (document.HasMember("notes") && document["notes"].IsArray()) {
    for (const auto& note : document["notes"].GetArray()) {
      if (note.IsString()) table->notes.emplace_back(note.GetString());
    }
  }
  return table;
}

}  // namespace retry_guard::conformance
