// For calls into Abseil: where it was built for C++14 (Debian's is),
// absl::string_view is a type of its own and std::string_view does not convert.

#ifndef RETRY_GUARD_POLICY_ABSL_VIEW_H_
#define RETRY_GUARD_POLICY_ABSL_VIEW_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace retry_guard {

constexpr absl::string_view AbslView(std::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_ABSL_VIEW_H_
