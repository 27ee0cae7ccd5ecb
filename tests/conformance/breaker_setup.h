// What the breakers of other systems are given, as a BreakerPolicy of ours.

#ifndef RETRY_GUARD_TESTS_CONFORMANCE_BREAKER_SETUP_H_
#define RETRY_GUARD_TESTS_CONFORMANCE_BREAKER_SETUP_H_

#include <optional>

#include "retry_guard/policy/method_policy.h"
#include "tests/conformance/fields.h"
#include "tests/conformance/table.h"

namespace retry_guard::conformance {

struct BreakerSetup {
  BreakerPolicy policy;
  // The peer judges the last n calls, not a window of time.
  int64_t last_calls = 0;
  // The peer starts counting anew at fixed times.
  bool fixed_intervals = false;
  // In half-open the peer closes after so many successes, and lets so many in.
  int64_t successes_to_close = 1;
  int64_t half_open_calls = 1;
  // The peer lets a failure in half-open pass, as long as there is hope.
  bool tolerant_half_open = false;
};

// Reads `config`; if it cannot be a policy of ours, the scenario is not
// applicable and the reason is reported.
std::optional<BreakerSetup> ReadBreakerSetup(const Table& table,
                                             const Fields& scenario,
                                             Report& report);

}  // namespace retry_guard::conformance

#endif  // RETRY_GUARD_TESTS_CONFORMANCE_BREAKER_SETUP_H_
