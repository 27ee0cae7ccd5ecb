// Service configs put together from the fragments that scenarios show.

#ifndef RETRY_GUARD_TESTS_CONFORMANCE_CONFIG_TEXT_H_
#define RETRY_GUARD_TESTS_CONFORMANCE_CONFIG_TEXT_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "retry_guard/config/service_config.h"
#include "tests/conformance/fields.h"

namespace retry_guard::conformance {

// Keys with their JSON text. An object that is empty is left out.
struct ConfigText {
  std::map<std::string, std::string> retry_policy;
  std::map<std::string, std::string> method_guard;  // methodConfig[].retryGuard
  std::map<std::string, std::string> method;        // methodConfig[0]
  std::map<std::string, std::string> top;

  std::string ToJson() const;
};

// "\"text\"", escaped.
std::string Quote(absl::string_view text);
// "\"1.5s\"".
std::string QuoteDuration(absl::Duration duration);
// All retryPolicy fields that are not there yet: 3 attempts, 1 ms, UNAVAILABLE.
void FillRetryPolicy(ConfigText* config);
// Members of a JSON object, each as text.
std::map<std::string, std::string> MembersOf(const Json& object);

// The errors of a status of ParseServiceConfig: path and text.
std::vector<std::pair<std::string, std::string>> ErrorLines(
    const absl::Status& status);

// Parses `config`, for scenarios that start from a valid one; not applicable if
// ours refuses it.
std::shared_ptr<const ServiceConfig> ParseOrSkip(const ConfigText& config,
                                                 Report& report);

}  // namespace retry_guard::conformance

#endif  // RETRY_GUARD_TESTS_CONFORMANCE_CONFIG_TEXT_H_
