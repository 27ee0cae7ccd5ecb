// The keys that are ours to judge, and those that stand beside them. What they
// mean is in proto/retry_guard/policy.proto, and a test holds the two together.

#ifndef RETRY_GUARD_CONFIG_KNOWN_KEYS_H_
#define RETRY_GUARD_CONFIG_KNOWN_KEYS_H_

#include "absl/strings/string_view.h"

namespace retry_guard::known_keys {

// gRFC A6.
inline constexpr absl::string_view kRetryPolicy[] = {
    "maxAttempts",       "initialBackoff",       "maxBackoff",
    "backoffMultiplier", "retryableStatusCodes", "perAttemptRecvTimeout",
};
inline constexpr absl::string_view kRetryThrottling[] = {"maxTokens",
                                                         "tokenRatio"};

// methodConfig[].retryGuard.
inline constexpr absl::string_view kMethodGuard[] = {
    "maxAttempts",    "jitter",           "perAttemptTimeout",
    "minAttemptTime", "idempotency",      "idempotencyKey",
    "layer",          "breaker",          "maxPushback",
    "pushbackJitter", "bufferLimitBytes",
};

// The top-level retryGuard, its budget and its breaker.
inline constexpr absl::string_view kChannelGuard[] = {"budget", "breaker",
                                                      "layerName"};
inline constexpr absl::string_view kBudget[] = {
    "ratio", "minRetries", "window", "maxRetries", "maxRetriesWindow"};
inline constexpr absl::string_view kBreaker[] = {
    "failureRate", "minRequests", "window", "consecutiveFailures",
    "openFor",     "maxOpenFor",  "probes", "failureStatusCodes",
};

// Where other keys are gRPC's business: those that we read, so that a slip in
// one of them can be told; and gRPC's own, which are no slips.
inline constexpr absl::string_view kServiceConfig[] = {
    "methodConfig", "retryThrottling", "retryGuard"};
inline constexpr absl::string_view kMethodConfig[] = {
    "name", "timeout", "waitForReady", "retryPolicy", "retryGuard"};
inline constexpr absl::string_view kName[] = {"service", "method"};
inline constexpr absl::string_view kGrpcsOwn[] = {
    "loadBalancingPolicy",    "loadBalancingConfig",     "healthCheckConfig",
    "maxRequestMessageBytes", "maxResponseMessageBytes", "hedgingPolicy",
};

}  // namespace retry_guard::known_keys

#endif  // RETRY_GUARD_CONFIG_KNOWN_KEYS_H_
