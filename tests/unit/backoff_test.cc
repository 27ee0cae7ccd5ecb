#include "retry_guard/policy/backoff.h"

#include <algorithm>
#include <limits>

#include "gtest/gtest.h"

namespace retry_guard {
namespace {

using absl::Milliseconds;
using absl::Nanoseconds;
using absl::Seconds;

BackoffPolicy Policy(Jitter jitter) {
  BackoffPolicy policy;
  policy.initial = Milliseconds(100);
  policy.max = Seconds(1);
  policy.multiplier = 2;
  policy.jitter = jitter;
  return policy;
}

TEST(BackoffTest, CeilingDoublesUpToTheCap) {
  const BackoffPolicy policy = Policy(Jitter::kNone);
  EXPECT_EQ(BackoffCeiling(policy, 1), Milliseconds(100));
  EXPECT_EQ(BackoffCeiling(policy, 2), Milliseconds(200));
  EXPECT_EQ(BackoffCeiling(policy, 3), Milliseconds(400));
  EXPECT_EQ(BackoffCeiling(policy, 4), Milliseconds(800));
  EXPECT_EQ(BackoffCeiling(policy, 5), Seconds(1));  // not 1.6 s
  EXPECT_EQ(BackoffCeiling(policy, 6), Seconds(1));
}

TEST(BackoffTest, FullJitterIsUniformFromZeroToTheCeiling) {
  const BackoffPolicy policy = Policy(Jitter::kFull);
  EXPECT_EQ(BackoffDelay(policy, 2, {}, 0), absl::ZeroDuration());
  EXPECT_EQ(BackoffDelay(policy, 2, {}, 0.25), Milliseconds(50));
  EXPECT_EQ(BackoffDelay(policy, 2, {}, 0.5), Milliseconds(100));
}

TEST(BackoffTest, EqualJitterKeepsHalfOfTheCeiling) {
  const BackoffPolicy policy = Policy(Jitter::kEqual);
  EXPECT_EQ(BackoffDelay(policy, 3, {}, 0), Milliseconds(200));
  EXPECT_EQ(BackoffDelay(policy, 3, {}, 0.5), Milliseconds(300));
}

TEST(BackoffTest, ProportionalJitterIsAFifthEitherWay) {
  const BackoffPolicy policy = Policy(Jitter::kProportional);
  EXPECT_EQ(BackoffDelay(policy, 1, {}, 0), Milliseconds(80));
  EXPECT_EQ(BackoffDelay(policy, 1, {}, 0.5), Milliseconds(100));
  EXPECT_EQ(BackoffDelay(policy, 9, {}, 0), Milliseconds(800));
}

TEST(BackoffTest, DecorrelatedGrowsFromThePreviousDelay) {
  const BackoffPolicy policy = Policy(Jitter::kDecorrelated);
  // U[100, 300]: the first one has no previous delay.
  EXPECT_EQ(BackoffDelay(policy, 1, Seconds(9), 0.5), Milliseconds(200));
  // U[100, 600]
  EXPECT_EQ(BackoffDelay(policy, 2, Milliseconds(200), 0.5), Milliseconds(350));
  // U[100, 2400], capped
  EXPECT_EQ(BackoffDelay(policy, 3, Milliseconds(800), 0.5), Seconds(1));
  EXPECT_EQ(BackoffDelay(policy, 3, Milliseconds(800), 0), Milliseconds(100));
}

TEST(BackoffTest, NoJitterIsTheCeiling) {
  EXPECT_EQ(BackoffDelay(Policy(Jitter::kNone), 2, {}, 0.7), Milliseconds(200));
}

TEST(BackoffTest, MultiplierBelowOneShrinksToZero) {
  BackoffPolicy policy = Policy(Jitter::kNone);
  policy.multiplier = 0.5;
  EXPECT_EQ(BackoffCeiling(policy, 2), Milliseconds(50));
  EXPECT_EQ(BackoffCeiling(policy, 10000), absl::ZeroDuration());
}

// Field case 12: the exponent computed before the cap.
TEST(BackoffTest, NeverOverflowsNorFallsBack) {
  for (absl::Duration initial : {Nanoseconds(1), Milliseconds(100),
                                 absl::Hours(1), Seconds(315576000000)}) {
    for (double multiplier : {1.0, 1.0001, 2.0, 1e300}) {
      BackoffPolicy policy;
      policy.initial = initial;
      policy.max = std::max(initial, absl::Hours(2));
      policy.multiplier = multiplier;
      policy.jitter = Jitter::kProportional;
      absl::Duration before = absl::ZeroDuration();
      for (int retry = 1; retry <= 10000; ++retry) {
        const absl::Duration ceiling = BackoffCeiling(policy, retry);
        ASSERT_GE(ceiling, before) << retry;
        ASSERT_LE(ceiling, policy.max) << retry;
        ASSERT_GE(BackoffDelay(policy, retry, {}, 0.0), ceiling * 0.79);
        ASSERT_LE(BackoffDelay(policy, retry, {}, 0.999), ceiling * 1.21);
        before = ceiling;
      }
      EXPECT_GE(before, initial);
      if (multiplier >= 2) {
        EXPECT_EQ(before, policy.max);
      }
    }
  }
}

TEST(BackoffTest, InfinityStaysInfinity) {
  BackoffPolicy policy;
  policy.initial = absl::InfiniteDuration();
  policy.max = absl::InfiniteDuration();
  for (Jitter jitter : {Jitter::kEqual, Jitter::kDecorrelated,
                        Jitter::kProportional, Jitter::kNone}) {
    policy.jitter = jitter;
    EXPECT_EQ(BackoffDelay(policy, 10000, absl::InfiniteDuration(), 0.5),
              absl::InfiniteDuration());
  }
  policy.initial = Seconds(1);
  policy.multiplier = 1e300;
  EXPECT_EQ(BackoffCeiling(policy, 2), absl::InfiniteDuration());
}

TEST(BackoffTest, RetryNumbersBelowOneAreTheFirst) {
  EXPECT_EQ(BackoffCeiling(Policy(Jitter::kNone), 0), Milliseconds(100));
  EXPECT_EQ(
      BackoffCeiling(Policy(Jitter::kNone), std::numeric_limits<int>::min()),
      Milliseconds(100));
}

TEST(BackoffLadderTest, ClimbsOneRungPerRetryAndRestarts) {
  const BackoffPolicy policy = Policy(Jitter::kNone);
  BackoffLadder ladder;
  EXPECT_EQ(ladder.Next(policy, 0), Milliseconds(100));
  EXPECT_EQ(ladder.Next(policy, 0), Milliseconds(200));
  EXPECT_EQ(ladder.Next(policy, 0), Milliseconds(400));
  ladder.Restart();
  EXPECT_EQ(ladder.Next(policy, 0), Milliseconds(100));
}

TEST(BackoffLadderTest, DecorrelatedRemembersItsOwnDelays) {
  const BackoffPolicy policy = Policy(Jitter::kDecorrelated);
  BackoffLadder ladder;
  EXPECT_EQ(ladder.Next(policy, 0.5), Milliseconds(200));  // U[100, 300]
  EXPECT_EQ(ladder.Next(policy, 0.5), Milliseconds(350));  // U[100, 600]
  EXPECT_EQ(ladder.Next(policy, 0.5), Milliseconds(575));  // U[100, 1050]
}

}  // namespace
}  // namespace retry_guard
