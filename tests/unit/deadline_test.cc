#include "retry_guard/policy/deadline.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace retry_guard {
namespace {

using absl::Milliseconds;

TEST(RetryFitsTest, DelayAndAttemptMustBothFit) {
  EXPECT_TRUE(RetryFits(Milliseconds(60), Milliseconds(40), Milliseconds(100)));
  EXPECT_FALSE(
      RetryFits(Milliseconds(60), Milliseconds(41), Milliseconds(100)));
  EXPECT_TRUE(RetryFits({}, {}, absl::ZeroDuration()));
  EXPECT_FALSE(RetryFits({}, {}, Milliseconds(-1)));
}

TEST(RetryFitsTest, EverythingFitsWithoutADeadline) {
  EXPECT_TRUE(RetryFits(absl::Hours(1000000), absl::Hours(1),
                        absl::InfiniteDuration()));
}

TEST(RetryFitsTest, HugeWaitsDoNotWrapIntoShortOnes) {
  EXPECT_FALSE(
      RetryFits(absl::InfiniteDuration(), Milliseconds(1), absl::Hours(1)));
  EXPECT_FALSE(RetryFits(absl::Seconds(315576000000),
                         absl::Seconds(315576000000), absl::Hours(1)));
}

TEST(AttemptTimeEstimateTest, FirstSampleWeighsAllLaterOnesAnEighth) {
  AttemptTimeEstimate estimate;
  EXPECT_EQ(estimate.Expected(), absl::ZeroDuration());
  estimate.Record(Milliseconds(80));
  EXPECT_EQ(estimate.Expected(), Milliseconds(80));
  estimate.Record(Milliseconds(160));  // 80 + 80/8
  EXPECT_EQ(estimate.Expected(), Milliseconds(90));
  estimate.Record(Milliseconds(10));  // 90 - 80/8
  EXPECT_EQ(estimate.Expected(), Milliseconds(80));
}

TEST(AttemptTimeEstimateTest, ExtremeSamplesSaturate) {
  AttemptTimeEstimate estimate;
  estimate.Record(absl::InfiniteDuration());
  estimate.Record(-absl::InfiniteDuration());  // counts as zero
  estimate.Record(absl::InfiniteDuration());
  EXPECT_GT(estimate.Expected(), absl::Hours(24 * 365 * 200));
}

TEST(AttemptTimeEstimateTest, ThreadsMayRecordAtOnce) {
  AttemptTimeEstimate estimate;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&estimate] {
      for (int n = 0; n < 1000; ++n) estimate.Record(Milliseconds(50));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(estimate.Expected(), Milliseconds(50));
}

}  // namespace
}  // namespace retry_guard
