#include "retry_guard/policy/concurrency_limit.h"

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace retry_guard {
namespace {

using ::testing::Optional;

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(1);

// Two places that were held for 80 ms each, as long as the average goes.
class ConcurrencyLimitTest : public ::testing::Test {
 protected:
  ConcurrencyLimitTest() {
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(limit_.Take(kNow), std::nullopt);
      limit_.GiveBack(absl::Milliseconds(80));
    }
  }

  ConcurrencyLimit limit_{2, absl::Seconds(1)};
};

TEST_F(ConcurrencyLimitTest, LetsInAsManyAsThereArePlaces) {
  EXPECT_EQ(limit_.Take(kNow), std::nullopt);
  EXPECT_EQ(limit_.Take(kNow), std::nullopt);
  EXPECT_NE(limit_.Take(kNow), std::nullopt);
  EXPECT_EQ(limit_.in_use(), 2);
  limit_.GiveBack(absl::Milliseconds(80));
  EXPECT_EQ(limit_.Take(kNow), std::nullopt);
}

TEST_F(ConcurrencyLimitTest, TellsEachOneATimeOfItsOwn) {
  limit_.Take(kNow);
  limit_.Take(kNow);
  // Two places of 80 ms: one becomes free every 40 ms. What the average lacks
  // in the end is less than ten nanoseconds.
  const auto near = [](absl::Duration expected) {
    return Optional(
        ::testing::AllOf(::testing::Ge(expected - absl::Nanoseconds(100)),
                         ::testing::Le(expected + absl::Nanoseconds(100))));
  };
  EXPECT_THAT(limit_.Take(kNow), near(absl::Milliseconds(40)));
  EXPECT_THAT(limit_.Take(kNow), near(absl::Milliseconds(80)));
  EXPECT_THAT(limit_.Take(kNow + absl::Milliseconds(30)),
              near(absl::Milliseconds(90)));
}

TEST_F(ConcurrencyLimitTest, ForgetsTheLineWhenItsTimesHavePassed) {
  limit_.Take(kNow);
  limit_.Take(kNow);
  const std::optional<absl::Duration> first = limit_.Take(kNow);
  limit_.Take(kNow);
  EXPECT_EQ(limit_.Take(kNow + absl::Seconds(5)), first);
}

TEST_F(ConcurrencyLimitTest, NeverTellsMoreThanTheLongestDelay) {
  limit_.Take(kNow);
  limit_.Take(kNow);
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(limit_.Take(kNow), Optional(::testing::Le(absl::Seconds(1))));
  }
  EXPECT_EQ(limit_.Take(kNow), absl::Seconds(1));
}

TEST_F(ConcurrencyLimitTest, NeverTellsToComeAtOnce) {
  for (int i = 0; i < 200; ++i) {
    limit_.Take(kNow);
    limit_.GiveBack(absl::ZeroDuration());
  }
  limit_.Take(kNow);
  limit_.Take(kNow);
  EXPECT_EQ(limit_.Take(kNow), absl::Milliseconds(1));
}

TEST(ConcurrencyLimitStandaloneTest, TakesLessThanOnePlaceAsOne) {
  ConcurrencyLimit limit(0, absl::Seconds(1));
  EXPECT_EQ(limit.Take(kNow), std::nullopt);
  // Nobody has given a place back yet: a tenth of a second is assumed.
  EXPECT_EQ(limit.Take(kNow), absl::Milliseconds(100));
}

TEST(ConcurrencyLimitStandaloneTest, NeverLetsMoreInFromManyThreads) {
  constexpr int kPlaces = 3;
  ConcurrencyLimit limit(kPlaces, absl::Seconds(1));
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) {
        if (limit.Take(kNow).has_value()) continue;
        const int now_inside = inside.fetch_add(1) + 1;
        int seen = most.load();
        while (now_inside > seen &&
               !most.compare_exchange_weak(seen, now_inside)) {
        }
        inside.fetch_sub(1);
        limit.GiveBack(absl::Microseconds(1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, kPlaces);
  EXPECT_EQ(limit.in_use(), 0);
}

}  // namespace
}  // namespace retry_guard
