// An analysis for people, and for machines.

#ifndef RETRY_GUARD_EXAMPLES_POLICY_CHECK_PRINT_H_
#define RETRY_GUARD_EXAMPLES_POLICY_CHECK_PRINT_H_

#include <string>

#include "absl/status/status.h"
#include "analysis.h"

namespace policy_check {

std::string ToText(const Analysis& analysis);

// {"ok": true, "budget": …, "breaker": …, "warnings": […], "methods": [{…}]}.
// Durations are seconds as numbers; null is "no end".
std::string ToJson(const Analysis& analysis);

// {"ok": false, "errors": ["path: …", …]}
std::string ErrorsToJson(const absl::Status& status);

}  // namespace policy_check

#endif  // RETRY_GUARD_EXAMPLES_POLICY_CHECK_PRINT_H_
