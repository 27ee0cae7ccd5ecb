// What a policy means in numbers, and what is doubtful about it. Pure.

#ifndef RETRY_GUARD_EXAMPLES_POLICY_CHECK_ANALYSIS_H_
#define RETRY_GUARD_EXAMPLES_POLICY_CHECK_ANALYSIS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "retry_guard/config/service_config.h"

namespace policy_check {

// Worst cases, for one user request, when everything fails and budget and
// breaker let every retry through.
struct Amplification {
  int this_layer = 1;
  int two_layers_without_marker = 1;
  int three_layers_without_marker = 1;
  // With the marker only one layer retries, however many there are.
  int any_layers_with_marker = 1;
};

struct MethodAnalysis {
  std::string name;  // as the config has it: "/pkg.Svc/Get", "/pkg.Svc/", ""
  std::vector<std::string> retried_codes;
  std::string repeat;  // when repeating is allowed, in words
  int max_attempts = 1;
  std::string jitter;
  // The longest wait before retry 1, 2, …: no draw of the jitter exceeds it.
  std::vector<absl::Duration> ladder;
  std::optional<absl::Duration> deadline;  // nothing: none
  // All attempts take their perAttemptTimeout and all waits are the longest;
  // infinite if attempts are not bounded.
  absl::Duration worst_case;
  absl::Duration worst_case_with_deadline;
  absl::Duration longest_hinted_wait;  // if the server asks for it
  Amplification amplification;
  std::vector<std::string> warnings;
};

struct Analysis {
  std::vector<MethodAnalysis> methods;
  std::string budget;   // the bound on all retries together, in words
  std::string breaker;  // in words
  std::vector<std::string> warnings;  // of the file
};

// `only`: one method, "/pkg.Service/Method"; nothing: every name in the config.
// `timeout`: the deadline that callers set, if the config has no tighter one.
Analysis Analyse(const retry_guard::ServiceConfig& config,
                 std::optional<std::string_view> only,
                 std::optional<absl::Duration> timeout);

}  // namespace policy_check

#endif  // RETRY_GUARD_EXAMPLES_POLICY_CHECK_ANALYSIS_H_
