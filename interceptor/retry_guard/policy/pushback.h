// What a server says about retrying its own failure, and how long that makes us
// wait: gRFC A6 pushback, google.rpc.RetryInfo, RFC 9110 Retry-After.
//
// Nothing that a server can send crashes, overflows, waits for ever, or turns
// into an early retry: hints are saturated, bounded by `max_wait`, and only
// ever stretched.

#ifndef RETRY_GUARD_POLICY_PUSHBACK_H_
#define RETRY_GUARD_POLICY_PUSHBACK_H_

#include <optional>
#include <string_view>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "retry_guard/policy/export.h"

namespace retry_guard {

struct ServerHint {
  enum class Source { kNone, kPushback, kRetryInfo, kRetryAfter };

  Source source = Source::kNone;
  bool stop = false;  // a pushback that is negative, malformed or given twice
  absl::Duration delay = absl::ZeroDuration();  // >= 0; none if `stop`

  bool present() const { return source != Source::kNone; }

  // The server itself says that repeating this call is fine. A bare
  // Retry-After does not count: a proxy may have added it.
  bool consent() const {
    return !stop &&
           (source == Source::kPushback || source == Source::kRetryInfo);
  }
};

// Where a hint may stand. The views must outlive the call of ReadServerHint.
struct HintSources {
  // All values of trailing `grpc-retry-pushback-ms`.
  absl::Span<const std::string_view> pushback_ms;
  // Bytes of `grpc-status-details-bin` (a google.rpc.Status).
  std::string_view status_details;
  // `retry-after`: the trailing one, else the one of the response headers.
  std::optional<std::string_view> retry_after;
};

// The first source present wins, in the order above:
// 1. grpc-retry-pushback-ms: a canonical non-negative int32 is that delay,
//    anything else, or two values, means stop;
// 2. RetryInfo.retry_delay: absent, negative or out of range is ignored;
// 3. retry-after: whole seconds (saturated), or an HTTP date in one of the
//    three forms of RFC 9110 5.6.7 against `wall_now` (the past is zero);
//    anything else is ignored.
RETRY_GUARD_EXPORT ServerHint ReadServerHint(const HintSources& sources,
                                             absl::Time wall_now);

struct PushbackPolicy {
  absl::Duration max_wait = absl::Seconds(60);  // > 0; a longer hint stops
  double jitter = 0.2;                          // 0 to 1
};

// Whether the server forbids the retry: it said stop, or a wait longer than we
// are willing to hold a call for.
RETRY_GUARD_EXPORT bool ServerForbidsRetry(const ServerHint& hint,
                                           const PushbackPolicy& policy);

// The wait that a delay hint makes of itself: hint * U[1, 1 + jitter], never
// earlier than asked. For RetryInfo and retry-after at least `own_backoff`. A
// hint of zero waits U[0, initial_backoff], since a herd that was told "now"
// must not come back as one. `unit` is uniform in [0, 1).
// REQUIRES: hint.present() && !ServerForbidsRetry(hint, policy).
RETRY_GUARD_EXPORT absl::Duration HintedWait(const ServerHint& hint,
                                             const PushbackPolicy& policy,
                                             absl::Duration initial_backoff,
                                             absl::Duration own_backoff,
                                             double unit);

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_PUSHBACK_H_
