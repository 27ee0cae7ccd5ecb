// One file of scenarios.

#ifndef RETRY_GUARD_TESTS_CONFORMANCE_TABLE_H_
#define RETRY_GUARD_TESTS_CONFORMANCE_TABLE_H_

#include <rapidjson/document.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace retry_guard::conformance {

// Schema "conformance-scenarios/1".
struct Table {
  std::string name;  // of the file, without its extension
  std::vector<std::string> notes;
  rapidjson::Document document;
  std::vector<const rapidjson::Value*> scenarios;
};

// Reads a table, or says what is wrong with it. The lines of a ".csv" become
// scenarios of a kind that is named after its columns.
absl::StatusOr<std::unique_ptr<Table>> ReadTable(const std::string& path);

}  // namespace retry_guard::conformance

#endif  // RETRY_GUARD_TESTS_CONFORMANCE_TABLE_H_
