// What ships: the numbers that are in force where a config says nothing. Users
// plan by them, so each stands here once more, as a literal.

#include <memory>
#include <optional>
#include <utility>

#include "gtest/gtest.h"
#include "retry_guard/config/service_config.h"
#include "retry_guard/policy/method_policy.h"

namespace retry_guard {
namespace {

// Nothing said, in all the ways in which a config can say nothing.
constexpr const char* kSilent[] = {
    "",
    "{}",
    R"({"retryGuard": {}})",
    R"({"retryGuard": {"budget": {}, "breaker": {}}})",
    R"({"methodConfig": [{"name": [{}]}]})",
    R"({"methodConfig": [{"name": [{}], "retryGuard": {}}]})",
};

class DefaultsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto config = ParseServiceConfig(GetParam());
    ASSERT_TRUE(config.ok()) << config.status();
    config_ = *std::move(config);
  }

  std::shared_ptr<const ServiceConfig> config_;
};
INSTANTIATE_TEST_SUITE_P(Silent, DefaultsTest, ::testing::ValuesIn(kSilent));

TEST_P(DefaultsTest, OfAMethodAreTheOnesDocumented) {
  const MethodPolicy& method = config_->ForMethod("/package.Service/Method");
  EXPECT_FALSE(method.has_retry_policy);
  EXPECT_EQ(method.max_attempts, 3);
  EXPECT_EQ(method.backoff.initial, absl::Milliseconds(100));
  EXPECT_EQ(method.backoff.max, absl::Seconds(10));
  EXPECT_EQ(method.backoff.multiplier, 2);
  EXPECT_EQ(method.backoff.jitter, Jitter::kFull);
  EXPECT_EQ(method.retryable_codes,
            StatusCodeSet({absl::StatusCode::kUnavailable}));
  EXPECT_EQ(method.timeout, std::nullopt);
  EXPECT_EQ(method.wait_for_ready, std::nullopt);
  EXPECT_EQ(method.per_attempt_timeout, absl::InfiniteDuration());
  EXPECT_EQ(method.min_attempt_time, std::nullopt);
  EXPECT_EQ(method.idempotency, Idempotency::kFromProto);
  EXPECT_FALSE(method.idempotency_key);
  EXPECT_EQ(method.layer, Layer::kOutermost);
  EXPECT_FALSE(method.own_breaker);
  EXPECT_EQ(method.pushback.max_wait, absl::Seconds(60));
  EXPECT_EQ(method.pushback.jitter, 0.2);
  EXPECT_EQ(method.buffer_limit_bytes, 262144);
}

TEST_P(DefaultsTest, OfTheBudgetAreTheOnesDocumented) {
  const BudgetPolicy& budget = config_->guard().budget;
  EXPECT_EQ(budget.ratio, 0.1);
  EXPECT_EQ(budget.min_retries, 10);
  EXPECT_EQ(budget.window, absl::Seconds(10));
  EXPECT_EQ(budget.max_retries, std::nullopt);
  EXPECT_EQ(budget.max_retries_window, absl::Seconds(60));
  EXPECT_FALSE(config_->guard().throttle.has_value());
}

TEST_P(DefaultsTest, OfTheBreakerAreTheOnesDocumented) {
  const BreakerPolicy& breaker = config_->guard().breaker;
  EXPECT_EQ(breaker.failure_rate, 0.5);
  EXPECT_EQ(breaker.min_requests, 20);
  EXPECT_EQ(breaker.window, absl::Seconds(3));
  EXPECT_EQ(breaker.consecutive_failures, 0);
  EXPECT_EQ(breaker.open_for, absl::Seconds(1));
  EXPECT_EQ(breaker.max_open_for, absl::Seconds(5));
  EXPECT_EQ(breaker.probes, 1);
  EXPECT_EQ(breaker.failure_codes,
            StatusCodeSet({absl::StatusCode::kUnavailable,
                           absl::StatusCode::kDeadlineExceeded}));
}

}  // namespace
}  // namespace retry_guard
