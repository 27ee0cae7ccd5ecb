#include "tests/conformance/table.h"

#include <rapidjson/error/en.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace retry_guard::conformance {
namespace {

constexpr char kSchema[] = "conformance-scenarios/1";

absl::Status Bad(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

rapidjson::Value ToJson(absl::string_view text,
                        rapidjson::Document::AllocatorType& allocator) {
  double number = 0;
  if (absl::SimpleAtod(text, &number)) return rapidjson::Value(number);
  return rapidjson::Value(
      text.data(), static_cast<rapidjson::SizeType>(text.size()), allocator);
}

// {"id": "line 2", "kind": "clients,algorithm,...", "input": {"clients": 10,
// ...}}
void ReadCsv(const std::string& text, Table* table) {
  rapidjson::Document& document = table->document;
  auto& allocator = document.GetAllocator();
  document.SetArray();
  const std::vector<std::string> lines =
      absl::StrSplit(absl::StrReplaceAll(text, {{"\r", ""}}), '\n');
  const std::vector<std::string> columns = absl::StrSplit(lines[0], ',');
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const std::vector<std::string> cells = absl::StrSplit(lines[i], ',');
    rapidjson::Value input(rapidjson::kObjectType);
    for (size_t c = 0; c < std::min(cells.size(), columns.size()); ++c) {
      rapidjson::Value key(columns[c].c_str(), allocator);
      input.AddMember(key, ToJson(cells[c], allocator), allocator);
    }
    rapidjson::Value scenario(rapidjson::kObjectType);
    const std::string id = absl::StrCat("line ", i + 1);
    scenario.AddMember("id", rapidjson::Value(id.c_str(), allocator),
                       allocator);
    scenario.AddMember("kind", rapidjson::Value(lines[0].c_str(), allocator),
                       allocator);
    scenario.AddMember("input", input, allocator);
    document.PushBack(scenario, allocator);
  }
  for (const auto& scenario : document.GetArray()) {
    table->scenarios.push_back(&scenario);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Table>> ReadTable(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return Bad(path, "cannot be read");

  auto table = std::make_unique<Table>();
  table->name = std::filesystem::path(path).stem().string();
  if (absl::EndsWith(path, ".csv")) {
    ReadCsv(text.str(), table.get());
    return table;
  }
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
