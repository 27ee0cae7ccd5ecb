// Everything that is wrong with one document, each with its path: whoever edits
// a config wants to hear it all at once.
//
//   auto config = errors->Key("methodConfig");
//   auto first = errors->Index(0);
//   errors->Add("5 is no object");   // "methodConfig[0]: 5 is no object"

#ifndef RETRY_GUARD_CONFIG_ERROR_LIST_H_
#define RETRY_GUARD_CONFIG_ERROR_LIST_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace retry_guard {

// Not thread-safe: one per document, while it is read.
class ErrorList {
 public:
  // One step of the path, for as long as it lives. Must not outlive the list.
  class [[nodiscard]] Scope {
   public:
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { path_->resize(size_before_); }

   private:
    friend class ErrorList;
    Scope(std::string* path, absl::string_view step);

    std::string* path_;
    size_t size_before_;
  };

  // `.key`, or `["key"]` when it does not look like one.
  Scope Key(absl::string_view key);
  // `[index]`.
  Scope Index(size_t index);

  // Of what stands at the current path.
  void Add(absl::string_view message);
  void Warn(absl::string_view message);

  // INVALID_ARGUMENT with a line per error, in the order they were found; OK
  // without one.
  absl::Status ToStatus() const;

  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::string Line(absl::string_view message) const;

  std::string path_;
  std::vector<std::string> errors_;
  std::vector<std::string> warnings_;
};

// Text of any origin, fit for one line of a message: quoted, escaped, and cut
// when it is long.
std::string Quoted(absl::string_view text);

}  // namespace retry_guard

#endif  // RETRY_GUARD_CONFIG_ERROR_LIST_H_
