#include "retry_guard/policy/grant_window.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace retry_guard {
namespace {

// 16 slots of 2^20 ns: round numbers in units of a slot.
constexpr absl::Duration kSlot = absl::Nanoseconds(1 << 20);
const TimeSlots kSlots(16 * kSlot, 16);
// UnixEpoch on purpose: there the slot numbers are multiples of large powers
// of two.
const absl::Time kStart = absl::UnixEpoch();

std::optional<absl::Time> Grant(GrantWindow& window, absl::Time now,
                                uint64_t limit) {
  return window.TryGrant(
      now, [limit](uint64_t, uint64_t used) { return used < limit; });
}

TEST(GrantWindowTest, GrantsUpToTheLimitPerWindow) {
  GrantWindow window(kSlots);
  EXPECT_TRUE(Grant(window, kStart, 2));
  EXPECT_TRUE(Grant(window, kStart + 3 * kSlot, 2));
  EXPECT_FALSE(Grant(window, kStart + 3 * kSlot, 2));
  // The first one is remembered through slot 16, the second through slot 19.
  EXPECT_FALSE(Grant(window, kStart + 16 * kSlot, 2));
  EXPECT_TRUE(Grant(window, kStart + 17 * kSlot, 2));
  EXPECT_FALSE(Grant(window, kStart + 19 * kSlot, 2));
  EXPECT_TRUE(Grant(window, kStart + 20 * kSlot, 2));
}

TEST(GrantWindowTest, ForgetsAfterALongPause) {
  GrantWindow window(kSlots);
  EXPECT_TRUE(Grant(window, kStart, 1));
  for (int64_t slots : {64, 1 << 10, 1 << 20, 1 << 30}) {
    EXPECT_EQ(window.At(kStart + slots * kSlot).used, 0u);
    EXPECT_TRUE(Grant(window, kStart + slots * kSlot, 1));
    EXPECT_FALSE(Grant(window, kStart + slots * kSlot, 1));
  }
}

TEST(GrantWindowTest, AGrantCanBeGivenBackWithinTheWindow) {
  GrantWindow window(kSlots);
  const auto granted = Grant(window, kStart, 1);
  ASSERT_TRUE(granted);
  EXPECT_FALSE(Grant(window, kStart + 5 * kSlot, 1));
  window.GiveBack(*granted);
  EXPECT_EQ(window.At(kStart + 5 * kSlot).used, 0u);
  EXPECT_TRUE(Grant(window, kStart + 5 * kSlot, 1));
  EXPECT_FALSE(Grant(window, kStart + 5 * kSlot, 1));
  // Grant and give-back leave the window together.
  EXPECT_EQ(window.At(kStart + 17 * kSlot).used, 1u);
  EXPECT_EQ(window.At(kStart + 22 * kSlot).used, 0u);
}

TEST(GrantWindowTest, GivingBackWhatTheWindowHasLeftBehindChangesNothing) {
  GrantWindow window(kSlots);
  const auto granted = Grant(window, kStart, 1);
  const absl::Time later = kStart + 40 * kSlot;
  EXPECT_TRUE(Grant(window, later, 1));
  window.GiveBack(*granted);
  EXPECT_EQ(window.At(later).used, 1u);
  EXPECT_FALSE(Grant(window, later, 1));
}

TEST(GrantWindowTest, ALateThreadIsServedInTheCurrentSlot) {
  GrantWindow window(kSlots);
  const absl::Time now = kStart + 5 * kSlot;
  EXPECT_EQ(Grant(window, now, 2), now);
  const absl::Time late = now - 2 * kSlot;
  EXPECT_EQ(Grant(window, late, 2), now);
  EXPECT_FALSE(Grant(window, late, 2));
  EXPECT_EQ(window.At(late).used, 2u);
}

TEST(GrantWindowTest, IsFullKnowsOnlyTheCurrentSlot) {
  GrantWindow window(kSlots);
  EXPECT_FALSE(window.IsFull(kStart, 0));  // in doubt
  EXPECT_TRUE(Grant(window, kStart, 1));
  EXPECT_TRUE(window.IsFull(kStart, 1));
  EXPECT_FALSE(window.IsFull(kStart, 2));
  EXPECT_FALSE(window.IsFull(kStart + kSlot, 1));
}

TEST(GrantWindowTest, AFrozenWindowHandsOverWhatItGranted) {
  GrantWindow window(kSlots);
  EXPECT_TRUE(Grant(window, kStart, 9));
  const auto granted = Grant(window, kStart + kSlot, 9);
  EXPECT_TRUE(Grant(window, kStart + kSlot, 9));
  window.GiveBack(*granted);
  const absl::Time now = kStart + 2 * kSlot;
  const GrantWindow::Legacy legacy = window.Freeze(now);
  EXPECT_EQ(legacy.at, now);
  EXPECT_EQ(legacy.used, 2u);
  EXPECT_TRUE(window.frozen());
  EXPECT_FALSE(Grant(window, now, 9));

  GrantWindow next(TimeSlots(64 * kSlot, 16), legacy);
  EXPECT_EQ(next.At(now).used, 2u);
  EXPECT_TRUE(Grant(next, now, 3));
  EXPECT_FALSE(Grant(next, now, 3));
  // What the old window granted is not the new one's to take back.
  next.GiveBack(kStart + kSlot);
  EXPECT_FALSE(Grant(next, now, 3));
  EXPECT_TRUE(Grant(next, now + 69 * kSlot, 3));
}

TEST(GrantWindowTest, OfManyThreadsExactlyAsManyAsAreLeftGetOne) {
  for (int round = 0; round < 50; ++round) {
    GrantWindow window(kSlots);
    std::atomic<int> granted{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        while (!go.load()) std::this_thread::yield();
        for (int i = 0; i < 25; ++i) {
          if (Grant(window, kStart, 37)) granted.fetch_add(1);
        }
      });
    }
    go = true;
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(granted.load(), 37);
  }
}

// Threads whose clocks are a little apart, while slots pass under them.
TEST(GrantWindowTest, HoldsTheLimitWhileTimePasses) {
  constexpr uint64_t kLimit = 20;
  GrantWindow window(kSlots);
  std::atomic<int64_t> ticks{0};
  std::vector<std::vector<absl::Time>> granted(8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 20000; ++i) {
        const int64_t tick = ticks.fetch_add(1);
        const absl::Time now =
            kStart + tick * kSlot / 50 - random() % 3 * kSlot;
        if (auto at = Grant(window, now, kLimit)) {
          if (random() % 8 == 0) {
            window.GiveBack(*at);
          } else {
            granted[t].push_back(*at);
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<absl::Time> all;
  for (const auto& mine : granted) {
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  for (size_t i = kLimit; i < all.size(); ++i) {
    ASSERT_GE(all[i] - all[i - kLimit], 16 * kSlot);
  }
  // It did grant: 160,000 ticks are 3,200 slots, 188 windows of 17 slots.
  EXPECT_GT(all.size(), 188 * kLimit / 2);
}

}  // namespace
}  // namespace retry_guard
