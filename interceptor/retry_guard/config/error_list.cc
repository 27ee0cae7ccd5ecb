#include "retry_guard/config/error_list.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace retry_guard {
namespace {

constexpr size_t kLongest = 64;

bool LooksLikeKey(absl::string_view text) {
  return !text.empty() && text.size() <= kLongest &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_';
         });
}

}  // namespace

ErrorList::Scope::Scope(std::string* path, absl::string_view step)
    : path_(path), size_before_(path->size()) {
  absl::StrAppend(path, step);
}

ErrorList::Scope ErrorList::Key(absl::string_view key) {
  if (!LooksLikeKey(key)) {
    return {&path_, absl::StrCat("[", Quoted(key), "]")};
  }
  return {&path_, absl::StrCat(path_.empty() ? "" : ".", key)};
}

ErrorList::Scope ErrorList::Index(size_t index) {
  return {&path_, absl::StrCat("[", index, "]")};
}

std::string ErrorList::Line(absl::string_view message) const {
  return absl::StrCat(path_.empty() ? "service config" : path_, ": ", message);
}

void ErrorList::Add(absl::string_view message) {
  errors_.push_back(Line(message));
}

void ErrorList::Warn(absl::string_view message) {
  warnings_.push_back(Line(message));
}

absl::Status ErrorList::ToStatus() const {
  if (errors_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(errors_, "\n"));
}

std::string Quoted(absl::string_view text) {
  absl::string_view shown = text.substr(0, kLongest);
  if (shown.size() < text.size()) {
    // Not in the middle of a character.
    while (!shown.empty() && (text[shown.size()] & 0xC0) == 0x80) {
      shown.remove_suffix(1);
    }
  }
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(shown),
                      shown.size() < text.size() ? "...\"" : "\"");
}

}  // namespace retry_guard
