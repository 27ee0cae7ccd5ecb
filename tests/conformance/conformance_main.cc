// retry_guard_conformance --scenarios DIR
//
// Replays tables of how other retry libraries behave against the real parts of
// this one. Prints what did not simply pass, and per file
//   FILE: N passed, N failed, N divergent, N not applicable
// Exits with 1 if anything failed, or a file is no table; with 2 on bad usage.
//
// "Divergent": ours answers otherwise on purpose, by a rule of divergences.h,
// and the replay has checked that it does. "Not applicable": the scenario asks
// for something that retry_guard has nothing like, or has a field that this
// runner does not know; it says which.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/conformance/fields.h"
#include "tests/conformance/kinds.h"
#include "tests/conformance/report.h"
#include "tests/conformance/table.h"

namespace retry_guard::conformance {
namespace {

using Counts = std::array<int, 4>;

std::string Summary(const Counts& counts) {
  const auto of = [&](Finding finding) {
    return counts[static_cast<size_t>(finding)];
  };
  return absl::StrCat(of(Finding::kPassed), " passed, ", of(Finding::kFailed),
                      " failed, ", of(Finding::kDivergent), " divergent, ",
                      of(Finding::kNotApplicable), " not applicable");
}

std::string NameOf(Finding finding) {
  switch (finding) {
    case Finding::kPassed:
      return "passed";
    case Finding::kFailed:
      return "FAILED";
    case Finding::kDivergent:
      return "divergent";
    case Finding::kNotApplicable:
      return "not applicable";
  }
  return "?";
}

Finding Run(const Table& table, const rapidjson::Value& json) {
  Report report;
  const Fields scenario(json, &report);
  scenario.Note({"id", "group", "title", "derived", "note", "guidance",
                 "applicability_note"});
  const std::string id = scenario.Text("id").value_or("(without id)");
  const std::string kind = scenario.Text("kind").value_or("");
  const std::string applicability =
      scenario.Text("applicability").value_or("direct");
  const Replay replay = ReplayOf(kind);
  if (applicability != "direct" && applicability != "adapt" &&
      applicability != "below_layer") {
    report.NotApplicable(absl::StrCat("applicability \"", applicability, "\""));
  } else if (replay == nullptr) {
    report.NotApplicable(absl::StrCat("no replay knows kind \"", kind, "\""));
  } else {
    replay(table, scenario, report);
    if (report.applicable()) scenario.AllRead();
  }
  const Finding finding = report.finding();
  if (finding != Finding::kPassed) {
    std::cout << "  " << NameOf(finding) << ": " << id << ": "
              << report.reason() << "\n";
  }
  return finding;
}

int RunAll(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(directory, error)) {
    const std::string extension = entry.path().extension();
    if (extension == ".json" || extension == ".csv") {
      paths.push_back(entry.path());
    }
  }
  if (error) {
    std::cerr << directory << ": " << error.message() << "\n";
    return 1;
  }
  if (paths.empty()) {
    std::cerr << directory << ": no tables (*.json, *.csv) in it\n";
    return 1;
  }
  std::sort(paths.begin(), paths.end());

  Counts total = {};
  bool readable = true;
  for (const std::string& path : paths) {
    const auto table = ReadTable(path);
    if (!table.ok()) {
      std::cout << "  UNREADABLE: " << table.status().message() << std::endl;
      readable = false;
      continue;
    }
    Counts counts = {};
    for (const rapidjson::Value* const scenario : (*table)->scenarios) {
      const auto finding = static_cast<size_t>(Run(**table, *scenario));
      ++counts[finding];
      ++total[finding];
    }
    std::cout << (*table)->name << ": " << Summary(counts) << std::endl;
  }
  std::cout << "total: " << Summary(total) << std::endl;
  return readable && total[static_cast<size_t>(Finding::kFailed)] == 0 ? 0 : 1;
}

}  // namespace
}  // namespace retry_guard::conformance

int main(int argc, char** argv) {
  // What gRPC says of odd configs would stand between our lines.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  std::string directory;
  if (arguments.size() == 2 && arguments[0] == "--scenarios") {
    directory = arguments[1];
  } else if (arguments.size() == 1 &&
             arguments[0].rfind("--scenarios=", 0) == 0) {
    directory = arguments[0].substr(sizeof("--scenarios=") - 1);
  }
  if (directory.empty()) {
    std::cerr << "usage: retry_guard_conformance --scenarios DIR\n";
    return 2;
  }
  return retry_guard::conformance::RunAll(directory);
}
