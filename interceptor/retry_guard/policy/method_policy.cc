#include "retry_guard/policy/method_policy.h"

#include <tuple>

namespace retry_guard {
namespace {

// All fields in one place per type, so that a new one is hard to forget.
auto Fields(const BackoffPolicy& p) {
  return std::tie(p.initial, p.max, p.multiplier, p.jitter);
}
auto Fields(const PushbackPolicy& p) { return std::tie(p.max_wait, p.jitter); }
auto Fields(const BudgetPolicy& p) {
  return std::tie(p.ratio, p.min_retries, p.window, p.max_retries,
                  p.max_retries_window);
}
auto Fields(const ThrottlePolicy& p) {
  return std::tie(p.max_milli_tokens, p.milli_token_ratio);
}
auto Fields(const BreakerPolicy& p) {
  return std::tie(p.failure_rate, p.min_requests, p.window,
                  p.consecutive_failures, p.open_for, p.max_open_for, p.probes,
                  p.failure_codes);
}
auto Fields(const GuardPolicy& p) {
  return std::tie(p.budget, p.throttle, p.breaker);
}
auto Fields(const MethodPolicy& p) {
  return std::tuple_cat(
      std::tie(p.has_retry_policy, p.max_attempts, p.retryable_codes, p.timeout,
               p.wait_for_ready, p.per_attempt_timeout, p.min_attempt_time,
               p.idempotency, p.idempotency_key, p.layer, p.own_breaker,
               p.buffer_limit_bytes),
      Fields(p.backoff), Fields(p.pushback));
}

}  // namespace

bool operator==(const BudgetPolicy& a, const BudgetPolicy& b) {
  return Fields(a) == Fields(b);
}
bool operator==(const ThrottlePolicy& a, const ThrottlePolicy& b) {
  return Fields(a) == Fields(b);
}
bool operator==(const BreakerPolicy& a, const BreakerPolicy& b) {
  return Fields(a) == Fields(b);
}
bool operator==(const GuardPolicy& a, const GuardPolicy& b) {
  return Fields(a) == Fields(b);
}
bool operator==(const MethodPolicy& a, const MethodPolicy& b) {
  return Fields(a) == Fields(b);
}

}  // namespace retry_guard
