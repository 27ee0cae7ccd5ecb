#include "retry_guard/policy/status_codes.h"

#include <cstddef>

#include "absl/strings/match.h"
#include "retry_guard/policy/absl_view.h"

namespace retry_guard {
namespace {

// By number. Not absl::StatusCodeToString, whose spelling is not a contract.
constexpr std::string_view kNames[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};
constexpr int kCount = 17;
static_assert(sizeof(kNames) / sizeof(kNames[0]) == kCount);

}  // namespace

std::string_view StatusCodeName(absl::StatusCode code) {
  return kNames[static_cast<size_t>(
      SanitizeStatusCode(static_cast<int>(code)))];
}

std::optional<absl::StatusCode> StatusCodeFromName(std::string_view name) {
  for (int code = 0; code < kCount; ++code) {
    if (absl::EqualsIgnoreCase(AbslView(name), AbslView(kNames[code]))) {
      return static_cast<absl::StatusCode>(code);
    }
  }
  return std::nullopt;
}

}  // namespace retry_guard
