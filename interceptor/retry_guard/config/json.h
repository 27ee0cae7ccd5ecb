// JSON as it stands in the text: duplicate keys and the spelling of numbers
// stay visible, and every value knows its place, so that a config can be judged
// strictly and edited without touching the rest of it.

#ifndef RETRY_GUARD_CONFIG_JSON_H_
#define RETRY_GUARD_CONFIG_JSON_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "retry_guard/policy/export.h"

namespace retry_guard {

struct JsonMember;

struct RETRY_GUARD_EXPORT JsonValue {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  bool boolean = false;             // kBool
  std::string text;                 // kString: decoded; kNumber: as written
  std::vector<JsonValue> elements;  // kArray
  std::vector<JsonMember> members;  // kObject: as written, duplicates kept

  // source.substr(begin, end - begin) is this value.
  size_t begin = 0;
  size_t end = 0;

  bool is(Kind other) const { return kind == other; }

  // The first member of that name; null if there is none.
  const JsonValue* Find(absl::string_view key) const;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

// Deeper nesting is refused: no service config needs it.
inline constexpr int kMaxJsonDepth = 64;

// RFC 8259, nothing beyond: no comments, no trailing commas, no NaN. Text and
// escapes must be valid Unicode. INVALID_ARGUMENT says where ("line 3, column
// 14: ...", both from 1, columns in bytes) and what. Stack use does not grow
// with the input.
RETRY_GUARD_EXPORT absl::StatusOr<JsonValue> ParseJson(
    absl::string_view source);

}  // namespace retry_guard

#endif  // RETRY_GUARD_CONFIG_JSON_H_
