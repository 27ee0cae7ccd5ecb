// What was decided about a call, and why: the words in which retry_guard
// answers "why did it retry, or not?".

#ifndef RETRY_GUARD_POLICY_DECISION_H_
#define RETRY_GUARD_POLICY_DECISION_H_

#include <iosfwd>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "retry_guard/policy/export.h"

namespace retry_guard {

enum class Verdict {
  kRetry,   // another attempt follows after `delay`
  kReturn,  // the caller gets its answer now
};

// One per way to end, or go on: the lines of decider.h.
enum class Reason {
  kRetry,                // repeated after `delay`
  kSucceeded,            // OK
  kCallerCancelled,      // the caller, or its caller, no longer wants it
  kCommitted,            // something of this attempt already reached the caller
  kNotRetryable,         // this code is not retried for this method
  kNotIdempotent,        // retryable, but running it twice may not be safe
  kServerSaidStop,       // negative or malformed pushback, or too long a hint
  kDisabled,             // the kill switch: Guard::SetRetriesEnabled(false)
  kAnotherLayerRetries,  // a service above owns the retries of this call
  kLayerNever,           // "layer": "NEVER"
  kCoreRetries,          // gRPC core retries this method itself
  kBreakerOpen,          // the circuit breaker lets nothing, or only probes, by
  kAttemptsExhausted,    // maxAttempts
  kDeadlineTooClose,     // the next attempt would not fit, or none is left
  kBudgetExhausted,      // the channel-wide retry budget has no token
  kUnknownMessageType,   // the messages cannot be handled: see MessageCodec
};
inline constexpr int kReasonCount =
    static_cast<int>(Reason::kUnknownMessageType) + 1;

// "kBudgetExhausted" -> "BUDGET_EXHAUSTED"; stable, fit for a metric's label.
RETRY_GUARD_EXPORT std::string_view ReasonName(Reason reason);
RETRY_GUARD_EXPORT std::string_view VerdictName(Verdict verdict);
RETRY_GUARD_EXPORT std::ostream& operator<<(std::ostream& os, Reason reason);
RETRY_GUARD_EXPORT std::ostream& operator<<(std::ostream& os, Verdict verdict);

// One decision. The views are valid during the observer's call only.
struct Decision {
  std::string_view method;  // "/package.Service/Method"
  // The attempt that this decision is about, from 1; 0 when the call was
  // refused before anything was sent.
  int attempt = 0;
  Verdict verdict = Verdict::kReturn;
  Reason reason = Reason::kSucceeded;
  // Of the attempt, or of the answer where none was sent.
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string_view message;  // of the same status as `code`
  std::string_view peer;     // of the attempt, as ClientContext::peer() has it
  absl::Duration delay = absl::ZeroDuration();  // before the next attempt
  // Until the call's deadline when this was decided: the caller's, or a tighter
  // one of the config or of the inbound call. Infinite without one.
  absl::Duration remaining = absl::InfiniteDuration();
  absl::Duration elapsed = absl::ZeroDuration();  // since the call started
  // The one immediate re-send of a stream that the server refused: it does not
  // count as an attempt of maxAttempts.
  bool resend = false;
};

// One line for a log: "/pkg.Svc/Get attempt 1 UNAVAILABLE: retry in 84ms (…)".
RETRY_GUARD_EXPORT std::string ToString(const Decision& decision);
RETRY_GUARD_EXPORT std::ostream& operator<<(std::ostream& os,
                                            const Decision& decision);

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_DECISION_H_
