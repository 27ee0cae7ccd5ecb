// What the service config says of one method, and of the whole channel: the
// words that policies read. Plain data, immutable once parsed; the JSON keys
// and their ranges are in proto/retry_guard/policy.proto.

#ifndef RETRY_GUARD_POLICY_METHOD_POLICY_H_
#define RETRY_GUARD_POLICY_METHOD_POLICY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "retry_guard/policy/backoff.h"
#include "retry_guard/policy/export.h"
#include "retry_guard/policy/pushback.h"
#include "retry_guard/policy/status_codes.h"

namespace retry_guard {

// What the config says of repeating a method. kFromProto leaves it to the
// method's `idempotency_level` option.
enum class Idempotency { kFromProto, kIdempotent, kNonIdempotent };

// Which layer of a chain of services retries.
enum class Layer {
  kOutermost,  // the first one that can: the default
  kHere,       // this one, even if a caller above says that it does
  kNever,      // not this one
};

struct MethodPolicy {
  // The standard part (gRFC A6, A2).
  bool has_retry_policy = false;  // a retryPolicy stands: the owner's consent
  int max_attempts = 3;           // 1 to 20, the first one included
  BackoffPolicy backoff;
  StatusCodeSet retryable_codes = {absl::StatusCode::kUnavailable};
  std::optional<absl::Duration> timeout;  // of the whole call
  std::optional<bool> wait_for_ready;

  // Ours.
  absl::Duration per_attempt_timeout = absl::InfiniteDuration();
  std::optional<absl::Duration> min_attempt_time;  // else estimated
  Idempotency idempotency = Idempotency::kFromProto;
  bool idempotency_key = false;
  Layer layer = Layer::kOutermost;
  bool own_breaker = false;
  PushbackPolicy pushback;
  int64_t buffer_limit_bytes = int64_t{256} * 1024;  // per call; streams
};

// `retryGuard.budget`.
struct BudgetPolicy {
  double ratio = 0.1;                                     // 0 to 1
  int64_t min_retries = 10;                               // per window; >= 0
  absl::Duration window = absl::Seconds(10);              // > 0
  std::optional<int64_t> max_retries;                     // flat cap; >= 0
  absl::Duration max_retries_window = absl::Seconds(60);  // > 0
};

// `retryThrottling` (gRFC A6), in thousandths of a token.
struct ThrottlePolicy {
  int64_t max_milli_tokens = 0;   // 1000 to 1000000
  int64_t milli_token_ratio = 0;  // > 0
};

// `retryGuard.breaker`. Off when failure_rate and consecutive_failures are 0.
struct BreakerPolicy {
  double failure_rate = 0.5;  // 0 to 1; 0 turns the rate rule off
  int64_t min_requests = 20;  // attempts in the window before the rate counts
  absl::Duration window = absl::Seconds(3);
  int64_t consecutive_failures = 0;  // 0 turns this rule off
  absl::Duration open_for = absl::Seconds(1);
  absl::Duration max_open_for = absl::Seconds(5);
  int probes = 1;  // >= 1: at a time in half-open, and successes to close
  StatusCodeSet failure_codes = {absl::StatusCode::kUnavailable,
                                 absl::StatusCode::kDeadlineExceeded};

  bool enabled() const { return failure_rate > 0 || consecutive_failures > 0; }
};

// What one Guard works by.
struct GuardPolicy {
  BudgetPolicy budget;
  std::optional<ThrottlePolicy> throttle;
  BreakerPolicy breaker;
};

RETRY_GUARD_EXPORT bool operator==(const BudgetPolicy& a,
                                   const BudgetPolicy& b);
RETRY_GUARD_EXPORT bool operator==(const ThrottlePolicy& a,
                                   const ThrottlePolicy& b);
RETRY_GUARD_EXPORT bool operator==(const BreakerPolicy& a,
                                   const BreakerPolicy& b);
RETRY_GUARD_EXPORT bool operator==(const GuardPolicy& a, const GuardPolicy& b);
RETRY_GUARD_EXPORT bool operator==(const MethodPolicy& a,
                                   const MethodPolicy& b);

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_METHOD_POLICY_H_
