#include "retry_guard/policy/throttle.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace retry_guard {
namespace {

ThrottlePolicy Policy(int64_t max, int64_t ratio) {
  ThrottlePolicy policy;
  policy.max_milli_tokens = max;
  policy.milli_token_ratio = ratio;
  return policy;
}

TEST(ThrottleTest, AllowsAllWithoutAPolicy) {
  Throttle throttle(std::nullopt);
  for (int i = 0; i < 100; ++i) throttle.RecordFailure();
  EXPECT_TRUE(throttle.AllowsRetry());
  EXPECT_EQ(throttle.milli_tokens(), std::nullopt);
}

TEST(ThrottleTest, RetriesOnlyWhileStrictlyAboveHalf) {
  Throttle throttle(Policy(4000, 1600));
  EXPECT_EQ(throttle.milli_tokens(), 4000);  // starts full
  EXPECT_TRUE(throttle.AllowsRetry());
  throttle.RecordFailure();  // 3000
  EXPECT_TRUE(throttle.AllowsRetry());
  throttle.RecordFailure();  // 2000: half is not above half
  EXPECT_EQ(throttle.milli_tokens(), 2000);
  EXPECT_FALSE(throttle.AllowsRetry());
  throttle.RecordFailure();  // 1000
  throttle.RecordSuccess();  // 2600
  EXPECT_EQ(throttle.milli_tokens(), 2600);
  EXPECT_TRUE(throttle.AllowsRetry());
}

TEST(ThrottleTest, IsClampedAtZeroAndAtFull) {
  Throttle throttle(Policy(1500, 700));
  throttle.RecordFailure();  // 500
  throttle.RecordFailure();  // 0, not -500
  EXPECT_EQ(throttle.milli_tokens(), 0);
  throttle.RecordSuccess();  // 700
  throttle.RecordSuccess();  // 1400
  throttle.RecordSuccess();  // 1500, not 2100
  EXPECT_EQ(throttle.milli_tokens(), 1500);
}

TEST(ThrottleTest, AnOddMaximumHasItsHalfInTheMiddle) {
  Throttle throttle(Policy(1001, 501));
  throttle.RecordFailure();  // 1
  throttle.RecordSuccess();  // 502 of 1001
  EXPECT_TRUE(throttle.AllowsRetry());
  Throttle other(Policy(1001, 499));
  other.RecordFailure();  // 1
  other.RecordSuccess();  // 500 of 1001
  EXPECT_FALSE(other.AllowsRetry());
}

TEST(ThrottleTest, ReconfigureKeepsTheFillFraction) {
  Throttle throttle(Policy(10000, 100));
  for (int i = 0; i < 4; ++i) throttle.RecordFailure();  // 6000: 60 %
  throttle.Reconfigure(Policy(5000, 200));
  EXPECT_EQ(throttle.milli_tokens(), 3000);
  throttle.RecordSuccess();
  EXPECT_EQ(throttle.milli_tokens(), 3200);
  throttle.Reconfigure(std::nullopt);
  EXPECT_EQ(throttle.milli_tokens(), std::nullopt);
  throttle.Reconfigure(Policy(2000, 100));
  EXPECT_EQ(throttle.milli_tokens(), 2000);
}

TEST(ThrottleTest, LimitsOfThePolicyFit) {
  Throttle throttle(Policy(1000000, 5000000));
  for (int i = 0; i < 1000; ++i) throttle.RecordFailure();
  EXPECT_EQ(throttle.milli_tokens(), 0);
  throttle.RecordSuccess();
  EXPECT_EQ(throttle.milli_tokens(), 1000000);
}

TEST(ThrottleTest, NoUpdateOfManyThreadsIsLost) {
  Throttle throttle(Policy(1000000, 1));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&throttle] {
      for (int n = 0; n < 100; ++n) throttle.RecordFailure();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(throttle.milli_tokens(), 1000000 - 8 * 100 * 1000);
}

}  // namespace
}  // namespace retry_guard
