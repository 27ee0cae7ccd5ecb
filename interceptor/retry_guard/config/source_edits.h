// The config for gRPC core: the same text, with only those values respelt that
// core would refuse or misread. A rewrite of the whole tree could not promise
// to leave alone what is not ours.

#ifndef RETRY_GUARD_CONFIG_SOURCE_EDITS_H_
#define RETRY_GUARD_CONFIG_SOURCE_EDITS_H_

#include <cstddef>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "retry_guard/config/json.h"
#include "retry_guard/policy/export.h"

namespace retry_guard {

// Not thread-safe.
class RETRY_GUARD_EXPORT SourceEdits {
 public:
  // `json` stands in the place of `value`.
  void Replace(const JsonValue& value, std::string json);

  // `member` (`"key": value`) becomes the first of `object`.
  // REQUIRES: the object has other members.
  void AddMember(const JsonValue& object, absl::string_view member);

  // The text with all edits made.
  std::string Apply(absl::string_view source) const;

 private:
  struct Edit {
    size_t end;
    std::string text;
  };
  std::map<size_t, Edit> by_begin_;
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_CONFIG_SOURCE_EDITS_H_
