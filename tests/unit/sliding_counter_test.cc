#include "retry_guard/policy/sliding_counter.h"

#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace retry_guard {
namespace {

// 16 slots of 2^20 ns: round numbers in units of a slot.
constexpr absl::Duration kSlot = absl::Nanoseconds(1 << 20);
const TimeSlots kSlots(16 * kSlot, 16);
const absl::Time kStart = absl::UnixEpoch() + 1000 * kSlot;

uint64_t SumAt(SlidingCounter& counter, absl::Time now) {
  const uint64_t slot = counter.slots().At(now);
  const uint64_t sum = counter.Sum(slot);
  EXPECT_EQ(counter.SumAnew(slot), sum);
  return sum;
}

TEST(SlidingCounterTest, CountsWhatLiesInTheWindow) {
  SlidingCounter counter(kSlots);
  EXPECT_EQ(SumAt(counter, kStart), 0u);
  counter.Add(kStart);
  counter.Add(kStart);
  EXPECT_EQ(SumAt(counter, kStart), 2u);
  counter.Add(kStart + kSlot, 5);
  EXPECT_EQ(SumAt(counter, kStart + kSlot), 7u);
  EXPECT_EQ(SumAt(counter, kStart + 15 * kSlot), 7u);  // 16 slots: all
  EXPECT_EQ(SumAt(counter, kStart + 16 * kSlot), 5u);
  EXPECT_EQ(SumAt(counter, kStart + 17 * kSlot), 0u);
}

TEST(SlidingCounterTest, ForgetsAfterALongPause) {
  SlidingCounter counter(kSlots);
  counter.Add(kStart, 9);
  for (int slots : {32, 64, 1024, 1 << 20}) {
    EXPECT_EQ(SumAt(counter, kStart + slots * kSlot), 0u) << slots;
  }
}

TEST(SlidingCounterTest, ALateThreadAddsToItsOwnSlot) {
  SlidingCounter counter(kSlots);
  counter.Add(kStart + kSlot);
  counter.Add(kStart);  // a little late
  EXPECT_EQ(SumAt(counter, kStart + kSlot), 2u);
  counter.Add(kStart - 1000 * kSlot);  // dropped: its words serve newer slots
  EXPECT_EQ(SumAt(counter, kStart + kSlot), 2u);
}

TEST(SlidingCounterTest, ClearForgetsEverything) {
  SlidingCounter counter(kSlots);
  counter.Add(kStart, 3);
  counter.Add(kStart + kSlot, 4);
  EXPECT_EQ(SumAt(counter, kStart + kSlot), 7u);
  counter.Clear();
  EXPECT_EQ(SumAt(counter, kStart + kSlot), 0u);
}

TEST(SlidingCounterTest, NeverCountsForLongerThanTheWindow) {
  // A window that is no whole number of slots: 20.3 of them.
  const absl::Duration window = kSlot * 203 / 10;
  SlidingCounter counter(TimeSlots(window, 16));
  ASSERT_EQ(counter.slots().width(), kSlot);
  std::mt19937 random(1);
  std::vector<absl::Time> added;
  absl::Time now = kStart;
  for (int i = 0; i < 20000; ++i) {
    now += absl::Nanoseconds(random() % (4 << 20));
    if (random() % 2 == 0) {
      counter.Add(now);
      added.push_back(now);
    }
    uint64_t most = 0;
    uint64_t least = 0;
    for (auto it = added.rbegin(); it != added.rend(); ++it) {
      if (*it <= now - window) break;
      ++most;
      if (*it > now - window + 2 * kSlot) ++least;
    }
    const uint64_t sum = SumAt(counter, now);
    ASSERT_LE(sum, most);
    ASSERT_GE(sum, least);
  }
}

TEST(SlidingCounterTest, NoAddOfManyThreadsIsLost) {
  SlidingCounter counter(kSlots);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&counter] {
      for (int i = 0; i < 1600; ++i) {
        counter.Add(kStart + i / 100 * kSlot);
        if (i % 64 == 0) counter.Sum(counter.slots().At(kStart));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.SumAnew(counter.slots().At(kStart + 15 * kSlot)),
            8u * 1600);
}

}  // namespace
}  // namespace retry_guard
