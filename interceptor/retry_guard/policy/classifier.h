// Whether a failed attempt is of a kind that is retried at all, and whether
// repeating it is safe. Two questions, because they have two answers: a code
// may be retryable while this call must not run twice.

#ifndef RETRY_GUARD_POLICY_CLASSIFIER_H_
#define RETRY_GUARD_POLICY_CLASSIFIER_H_

#include "retry_guard/policy/export.h"
#include "retry_guard/policy/method_policy.h"
#include "retry_guard/policy/outcome.h"

namespace retry_guard {

// What is known of running a call twice.
enum class Repeat {
  kSafe,     // idempotent by proto option, config, or a travelling key
  kUnknown,  // nobody said
  kUnsafe,   // the config says NON_IDEMPOTENT
};

// `proto_idempotent`: the method's idempotency_level is NO_SIDE_EFFECTS or
// IDEMPOTENT. `key_travels`: this call carries an `idempotency-key`. The config
// has the last word in both directions.
RETRY_GUARD_EXPORT Repeat ClassifyRepeat(const MethodPolicy& policy,
                                         bool proto_idempotent,
                                         bool key_travels);

// By code, server hint and origin:
// - a code of `retryable_codes` (UNAVAILABLE unless the method lists others);
// - RESOURCE_EXHAUSTED with the server's consent (pushback or RetryInfo);
// - ABORTED with the server's consent while an idempotency key travels;
// - an attempt that hit its perAttemptTimeout, whatever is listed: IsSafe
//   decides about it.
// OK never, nor RESOURCE_EXHAUSTED or CANCELLED that were made locally, even if
// listed.
RETRY_GUARD_EXPORT bool IsRetryable(const Outcome& outcome,
                                    const MethodPolicy& policy,
                                    bool key_travels);

// Whether this outcome may be followed by the same call again:
// - kSafe: always;
// - kUnknown: a code that a retryPolicy lists (the owner's consent; an attempt
//   timeout only if DEADLINE_EXCEEDED is listed), the server's consent, never
//   connected, or refused;
// - kUnsafe: the server's consent or never connected.
RETRY_GUARD_EXPORT bool IsSafe(const Outcome& outcome,
                               const MethodPolicy& policy, Repeat repeat);

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_CLASSIFIER_H_
