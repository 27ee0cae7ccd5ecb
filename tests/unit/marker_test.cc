#include "retry_guard/policy/marker.h"

#include <gtest/gtest.h>

#include <vector>

namespace retry_guard {
namespace {

using Values = std::vector<std::string_view>;

std::optional<RetryMarker> Read(const Values& owner, const Values& attempt = {},
                                const Values& remaining = {}) {
  MarkerSources sources;
  sources.owner = owner;
  sources.attempt = attempt;
  sources.remaining_ms = remaining;
  return ReadMarker(sources);
}

TEST(MarkerTest, ReadsWhatALayerAboveHasSaid) {
  const auto marker = Read({"gateway"}, {"2"}, {"1500"});
  ASSERT_TRUE(marker.has_value());
  EXPECT_EQ(marker->owner, "gateway");
  EXPECT_EQ(marker->attempt, 2);
  EXPECT_EQ(marker->remaining, absl::Milliseconds(1500));
}

TEST(MarkerTest, IsNothingWithoutAnOwner) {
  EXPECT_FALSE(Read({}, {"2"}, {"1500"}).has_value());
  EXPECT_FALSE(Read({""}, {"2"}, {"1500"}).has_value());
}

TEST(MarkerTest, KnowsNoDeadlineUnlessOneIsSaid) {
  EXPECT_EQ(Read({"a"})->remaining, absl::InfiniteDuration());
  EXPECT_EQ(Read({"a"})->attempt, 0);
}

TEST(MarkerTest, LeavesOutWhatIsMalformed) {
  for (const std::string_view bad :
       {"", "-1", "+1", " 1", "1.5", "0x1", "one"}) {
    const auto marker = Read({"a"}, {bad}, {bad});
    EXPECT_EQ(marker->attempt, 0) << bad;
    EXPECT_EQ(marker->remaining, absl::InfiniteDuration()) << bad;
  }
}

TEST(MarkerTest, SaturatesWhatIsTooLarge) {
  const auto marker =
      Read({"a"}, {"99999999999999999999999"}, {"99999999999999999999999"});
  EXPECT_EQ(marker->attempt, 2147483647);
  EXPECT_GT(marker->remaining, absl::Hours(24 * 365));
}

TEST(MarkerTest, TakesTheFirstOwnerAndTheShortestTime) {
  const auto marker = Read({"a", "b"}, {"1", "7"}, {"200", "x", "100"});
  EXPECT_EQ(marker->owner, "a");
  EXPECT_EQ(marker->attempt, 1);
  EXPECT_EQ(marker->remaining, absl::Milliseconds(100));
}

TEST(MarkerTest, MakesAnOwnerFitToBeSentOn) {
  EXPECT_EQ(Read({"a\r\nb\x7f\xff"})->owner, "a??b??");
  EXPECT_EQ(Read({std::string(1000, 'x')})->owner.size(),
            RetryMarker::kLongestOwner);
}

}  // namespace
}  // namespace retry_guard
