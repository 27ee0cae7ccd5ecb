#include "retry_guard/policy/duration_average.h"

#include <gtest/gtest.h>

namespace retry_guard {
namespace {

TEST(DurationAverageTest, TheFirstSampleWeighsAll) {
  DurationAverage average;
  EXPECT_EQ(average.value(), absl::ZeroDuration());
  average.Record(absl::Milliseconds(80));
  EXPECT_EQ(average.value(), absl::Milliseconds(80));
}

TEST(DurationAverageTest, LaterOnesWeighAnEighth) {
  DurationAverage average;
  average.Record(absl::Milliseconds(80));
  average.Record(absl::Milliseconds(160));
  EXPECT_EQ(average.value(), absl::Milliseconds(90));
}

TEST(DurationAverageTest, AStartIsWornOffLikeAnySample) {
  DurationAverage average(absl::Milliseconds(80));
  EXPECT_EQ(average.value(), absl::Milliseconds(80));
  average.Record(absl::Milliseconds(160));
  EXPECT_EQ(average.value(), absl::Milliseconds(90));
}

TEST(DurationAverageTest, NegativeSamplesCountAsZero) {
  DurationAverage average;
  average.Record(-absl::Seconds(1));
  EXPECT_EQ(average.value(), absl::ZeroDuration());
}

}  // namespace
}  // namespace retry_guard
