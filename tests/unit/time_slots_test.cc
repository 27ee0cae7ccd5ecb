#include "retry_guard/policy/time_slots.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace retry_guard {
namespace {

TEST(TimeSlotsTest, WidthIsTheLargestPowerOfTwoThatIsFineEnough) {
  const TimeSlots ten_seconds(absl::Seconds(10), 128);
  EXPECT_EQ(ten_seconds.width(), absl::Nanoseconds(1 << 26));  // 67 ms
  EXPECT_EQ(ten_seconds.full(), 149);                          // 149.01 slots
  EXPECT_EQ(ten_seconds.touched(), 150);
  EXPECT_EQ(ten_seconds.ring_size(), 256);

  const TimeSlots exact(absl::Nanoseconds(1 << 20), 16);
  EXPECT_EQ(exact.width(), absl::Nanoseconds(1 << 16));
  EXPECT_EQ(exact.full(), 16);
  EXPECT_EQ(exact.touched(), 16);
}

TEST(TimeSlotsTest, SlotsAreInOrderAcrossTheEpoch) {
  const TimeSlots slots(absl::Nanoseconds(1024), 128);  // 8 ns
  const uint64_t zero = slots.At(absl::UnixEpoch());
  EXPECT_EQ(slots.At(absl::UnixEpoch() + absl::Nanoseconds(7)), zero);
  EXPECT_EQ(slots.At(absl::UnixEpoch() + absl::Nanoseconds(8)), zero + 1);
  EXPECT_EQ(slots.At(absl::UnixEpoch() - absl::Nanoseconds(1)), zero - 1);
  EXPECT_EQ(slots.At(absl::UnixEpoch() - absl::Nanoseconds(8)), zero - 1);
  EXPECT_EQ(slots.At(absl::UnixEpoch() - absl::Nanoseconds(9)), zero - 2);
  EXPECT_LT(slots.At(absl::InfinitePast()), slots.At(absl::InfiniteFuture()));
}

TEST(TimeSlotsTest, StartLeadsBackToTheSlot) {
  const TimeSlots slots(absl::Seconds(3), 16);
  for (absl::Time time : {absl::UnixEpoch(), absl::FromUnixSeconds(1700000000),
                          absl::FromUnixSeconds(-1700000000)}) {
    const uint64_t slot = slots.At(time);
    EXPECT_LE(slots.StartOf(slot), time);
    EXPECT_GT(slots.StartOf(slot + 1), time);
    EXPECT_EQ(slots.At(slots.StartOf(slot)), slot);
  }
}

TEST(TimeSlotsTest, ExtremeWindowsWork) {
  const TimeSlots shortest(absl::Nanoseconds(1), 128);
  EXPECT_EQ(shortest.full(), 1);
  EXPECT_EQ(shortest.touched(), 1);
  const TimeSlots longest(absl::InfiniteDuration(), 128);
  EXPECT_GE(longest.full(), 128);
  EXPECT_LE(longest.touched(), 256);
  EXPECT_LE(longest.ring_size(), 512);
}

TEST(SlotWordTest, KeepsSlotAndValueTogether) {
  const uint64_t word = slot_word::Pack(41, 7);
  EXPECT_EQ(slot_word::Value(word), 7u);
  EXPECT_TRUE(slot_word::IsOf(word, 41));
  EXPECT_FALSE(slot_word::IsOf(word, 42));
  EXPECT_EQ(slot_word::SlotsSince(word, 44), 3);
  EXPECT_EQ(slot_word::SlotsSince(word, 40), -1);
  EXPECT_TRUE(slot_word::IsLaterThan(word, 40));
  EXPECT_FALSE(slot_word::IsLaterThan(word, 41));
  EXPECT_FALSE(slot_word::IsLaterThan(word, 42));
}

TEST(SlotWordTest, AnUnwrittenWordIsOfNoSlotNotEvenOfZero) {
  EXPECT_FALSE(slot_word::IsOf(0, 0));
  EXPECT_FALSE(slot_word::IsLaterThan(0, 0));
  EXPECT_FALSE(slot_word::IsLaterThan(0, uint64_t{1} << 34));
}

TEST(SlotWordTest, ComparesAcrossTheWrapOfItsSlotNumber) {
  const uint64_t last = (uint64_t{1} << 35) - 1;
  const uint64_t word = slot_word::Pack(last, 1);
  EXPECT_EQ(slot_word::SlotsSince(word, last + 2), 2);
  EXPECT_TRUE(slot_word::IsLaterThan(slot_word::Pack(last + 2, 1), last));
  // Written ages ago: does not look as if it came from the future.
  EXPECT_FALSE(slot_word::IsLaterThan(word, last + (uint64_t{1} << 34) + 99));
}

TEST(SlotWordTest, AddNeverReachesANewerSlot) {
  std::atomic<uint64_t> word{0};
  slot_word::Add(word, 5, 2);
  slot_word::Add(word, 5, 1);
  EXPECT_EQ(slot_word::Read(word, 5), 3u);
  slot_word::Add(word, 8, 1);  // a new slot starts from zero
  EXPECT_EQ(slot_word::Read(word, 8), 1u);
  EXPECT_EQ(slot_word::Read(word, 5), 0u);
  slot_word::Add(word, 5, 1);  // late: dropped
  EXPECT_EQ(slot_word::Read(word, 8), 1u);
}

TEST(SlotWordTest, AddSaturates) {
  std::atomic<uint64_t> word{0};
  slot_word::Add(word, 5, slot_word::kMaxValue - 1);
  slot_word::Add(word, 5, 5);
  slot_word::Add(word, 5, 5);
  EXPECT_EQ(slot_word::Read(word, 5), slot_word::kMaxValue);
}

}  // namespace
}  // namespace retry_guard
