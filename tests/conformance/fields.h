// Strict access to the JSON of a scenario: whatever a replay does not ask for
// makes the scenario "not applicable", with the name of the field. A table may
// thus say more than this runner knows, but never without being heard.

#ifndef RETRY_GUARD_TESTS_CONFORMANCE_FIELDS_H_
#define RETRY_GUARD_TESTS_CONFORMANCE_FIELDS_H_

#include <rapidjson/document.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/conformance/report.h"

namespace retry_guard::conformance {

using Json = rapidjson::Value;

// The text of `json`.
std::string ToText(const Json& json);

// One object. Copies share what was read. The report and the JSON must outlive
// it. A value of another type than asked for is "not applicable" too.
class Fields {
 public:
  Fields(const Json& root, Report* report);

  // Whether it is there at all; reads nothing.
  bool Has(const char* key) const { return Find(key) != nullptr; }
  bool IsObject(const char* key) const;
  bool IsArray(const char* key) const;
  bool IsString(const char* key) const;
  bool IsNumber(const char* key) const;
  // Read as null.
  bool IsNull(const char* key) const;

  // Nothing if it is absent, or null.
  std::optional<bool> Bool(const char* key) const;
  std::optional<int64_t> Int(const char* key) const;
  std::optional<double> Number(const char* key) const;
  std::optional<std::string> Text(const char* key) const;
  // `stem`_ms or `stem`_s.
  std::optional<absl::Duration> Time(const std::string& stem) const;

  // Empty if absent. An absent object has no fields.
  Fields Object(const char* key) const;
  std::vector<Fields> Objects(const char* key) const;
  std::vector<double> Numbers(const char* key) const;
  std::vector<std::string> Texts(const char* key) const;

  // Without reading it.
  const Json* Peek(const char* key) const { return Find(key); }
  // With everything in it; null if absent.
  const Json* Whole(const char* key) const;

  // Words for a reader, nothing to check.
  void Note(std::initializer_list<const char*> keys) const;

  std::vector<std::string> Keys() const;
  std::string Path(absl::string_view key) const;
  bool empty() const;

  // Whether all of it was read; if not, the scenario is not applicable.
  bool AllRead() const;

  Report& report() const { return *shared_->report; }

 private:
  struct Shared {
    Report* report = nullptr;
    std::set<const Json*> read;   // its members are asked for one by one
    std::set<const Json*> whole;  // taken with everything in it
  };

  Fields(std::shared_ptr<Shared> shared, const Json* object, std::string path);
  const Json* Find(const char* key) const;
  const Json* Read(const char* key) const;
  void WrongType(absl::string_view key, absl::string_view type) const;
  void CheckRead(const Json& json, const std::string& path) const;

  std::shared_ptr<Shared> shared_;
  const Json* object_;  // null: absent
  std::string path_;
};

}  // namespace retry_guard::conformance

#endif  // RETRY_GUARD_TESTS_CONFORMANCE_FIELDS_H_
