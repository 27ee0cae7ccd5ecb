// What a call may come to, whatever the timing was.

#ifndef RETRY_GUARD_TESTS_STRESS_MODEL_H_
#define RETRY_GUARD_TESTS_STRESS_MODEL_H_

#include <string>
#include <vector>

#include "tests/stress/ledger.h"
#include "tests/stress/routes.h"

namespace retry_guard::stress {

// Everything that is wrong with how the call went; empty if it is all right.
std::vector<std::string> Judge(const Record& record, const Result& result,
                               const RouteTraits& route, int max_attempts,
                               absl::Time ended);

}  // namespace retry_guard::stress

#endif  // RETRY_GUARD_TESTS_STRESS_MODEL_H_
