#include "retry_guard/policy/method_policy.h"

#include <functional>
#include <vector>

#include "gtest/gtest.h"

namespace retry_guard {
namespace {

// Every single change makes two policies differ. A field that operator==
// forgets would let a change of the config go unnoticed.
template <typename Policy>
void EachChangeIsSeen(
    const std::vector<std::function<void(Policy&)>>& changes) {
  EXPECT_TRUE(Policy() == Policy());
  for (size_t i = 0; i < changes.size(); ++i) {
    Policy changed;
    changes[i](changed);
    EXPECT_FALSE(changed == Policy()) << "change " << i;
    EXPECT_TRUE(changed == changed) << "change " << i;
  }
}

TEST(MethodPolicyTest, EqualityLooksAtEveryField) {
  EachChangeIsSeen<MethodPolicy>({
      [](MethodPolicy& p) { p.has_retry_policy = true; },
      [](MethodPolicy& p) { p.max_attempts = 4; },
      [](MethodPolicy& p) { p.backoff.initial = absl::Seconds(1); },
      [](MethodPolicy& p) { p.backoff.max = absl::Seconds(1); },
      [](MethodPolicy& p) { p.backoff.multiplier = 3; },
      [](MethodPolicy& p) { p.backoff.jitter = Jitter::kNone; },
      [](MethodPolicy& p) { p.retryable_codes = {}; },
      [](MethodPolicy& p) { p.timeout = absl::Seconds(1); },
      [](MethodPolicy& p) { p.wait_for_ready = false; },
      [](MethodPolicy& p) { p.per_attempt_timeout = absl::Seconds(1); },
      [](MethodPolicy& p) { p.min_attempt_time = absl::ZeroDuration(); },
      [](MethodPolicy& p) { p.idempotency = Idempotency::kIdempotent; },
      [](MethodPolicy& p) { p.idempotency_key = true; },
      [](MethodPolicy& p) { p.layer = Layer::kHere; },
      [](MethodPolicy& p) { p.own_breaker = true; },
      [](MethodPolicy& p) { p.pushback.max_wait = absl::Seconds(1); },
      [](MethodPolicy& p) { p.pushback.jitter = 0; },
      [](MethodPolicy& p) { p.buffer_limit_bytes = 1; },
  });
}

TEST(GuardPolicyTest, EqualityLooksAtEveryField) {
  EachChangeIsSeen<GuardPolicy>({
      [](GuardPolicy& p) { p.budget.ratio = 0.2; },
      [](GuardPolicy& p) { p.budget.min_retries = 1; },
      [](GuardPolicy& p) { p.budget.window = absl::Seconds(1); },
      [](GuardPolicy& p) { p.budget.max_retries = 0; },
      [](GuardPolicy& p) { p.budget.max_retries_window = absl::Seconds(1); },
      [](GuardPolicy& p) { p.throttle = ThrottlePolicy(); },
      [](GuardPolicy& p) { p.breaker.failure_rate = 0.1; },
      [](GuardPolicy& p) { p.breaker.min_requests = 1; },
      [](GuardPolicy& p) { p.breaker.window = absl::Seconds(1); },
      [](GuardPolicy& p) { p.breaker.consecutive_failures = 1; },
      [](GuardPolicy& p) { p.breaker.open_for = absl::Seconds(2); },
      [](GuardPolicy& p) { p.breaker.max_open_for = absl::Seconds(2); },
      [](GuardPolicy& p) { p.breaker.probes = 2; },
      [](GuardPolicy& p) { p.breaker.failure_codes = {}; },
  });
  EachChangeIsSeen<ThrottlePolicy>({
      [](ThrottlePolicy& p) { p.max_milli_tokens = 1; },
      [](ThrottlePolicy& p) { p.milli_token_ratio = 1; },
  });
}

TEST(BreakerPolicyTest, IsOffWhenBothRulesAre) {
  BreakerPolicy policy;
  EXPECT_TRUE(policy.enabled());
  policy.failure_rate = 0;
  EXPECT_FALSE(policy.enabled());
  policy.consecutive_failures = 1;
  EXPECT_TRUE(policy.enabled());
}

}  // namespace
}  // namespace retry_guard
