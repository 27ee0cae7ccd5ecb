#include "retry_guard/config/source_edits.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace retry_guard {

void SourceEdits::Replace(const JsonValue& value, std::string json) {
  by_begin_[value.begin] = {value.end, std::move(json)};
}

void SourceEdits::AddMember(const JsonValue& object, absl::string_view member) {
  const size_t after_brace = object.begin + 1;
  by_begin_[after_brace] = {after_brace, absl::StrCat(member, ", ")};
}

std::string SourceEdits::Apply(absl::string_view source) const {
  std::string edited;
  size_t position = 0;
  for (const auto& [begin, edit] : by_begin_) {
    absl::StrAppend(&edited, source.substr(position, begin - position),
                    edit.text);
    position = edit.end;
  }
  absl::StrAppend(&edited, source.substr(position));
  return edited;
}

}  // namespace retry_guard
