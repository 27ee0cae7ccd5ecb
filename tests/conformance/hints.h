// What a server says about retrying, put on the wire as servers do.

#ifndef RETRY_GUARD_TESTS_CONFORMANCE_HINTS_H_
#define RETRY_GUARD_TESTS_CONFORMANCE_HINTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "retry_guard/policy/pushback.h"

namespace retry_guard::conformance {

// Bytes of grpc-status-details-bin with one RetryInfo. Of any value, a negative
// one too.
std::string DetailsWithRetryInfo(int64_t seconds, int32_t nanos);
std::string DetailsWithRetryInfo(absl::Duration delay);
// With a RetryInfo that has no delay, and with a detail of another kind.
std::string DetailsWithEmptyRetryInfo();
std::string DetailsWithErrorInfo();

ServerHint ReadPushback(const std::vector<std::string>& values);
ServerHint ReadDetails(const std::string& details);
ServerHint ReadRetryAfter(std::string_view value, absl::Time wall_now);

}  // namespace retry_guard::conformance

#endif  // RETRY_GUARD_TESTS_CONFORMANCE_HINTS_H_
