#include "retry_guard/policy/sliding_counter.h"

#include <algorithm>

namespace retry_guard {

SlidingCounter::SlidingCounter(const TimeSlots& slots)
    : slots_(slots),
      ring_mask_(slots.ring_size() - 1),
      stripes_(StripeCount()),
      lines_(stripes_ * slots.ring_size() / kWordsPerLine) {}

void SlidingCounter::Add(absl::Time now, uint64_t amount) {
  const uint64_t slot = slots_.At(now);
  slot_word::Add(Word(Index(ThreadStripe() & (stripes_ - 1), slot)), slot,
                 amount);
}

uint64_t SlidingCounter::OfSlot(uint64_t slot) const {
  uint64_t sum = 0;
  for (size_t stripe = 0; stripe < stripes_; ++stripe) {
    sum += slot_word::Read(Word(Index(stripe, slot)), slot);
  }
  return sum;
}

uint64_t SlidingCounter::OfCompletedSlots(uint64_t slot) const {
  uint64_t sum = 0;
  for (int age = 1; age < slots_.full(); ++age) sum += OfSlot(slot - age);
  return std::min(sum, slot_word::kMaxValue);
}

uint64_t SlidingCounter::Sum(uint64_t slot) {
  uint64_t completed = completed_.load(std::memory_order_relaxed);
  if (!slot_word::IsOf(completed, slot)) {
    completed = slot_word::Pack(slot, OfCompletedSlots(slot));
    completed_.store(completed, std::memory_order_relaxed);
  }
  return std::min(slot_word::Value(completed) + OfSlot(slot),
                  slot_word::kMaxValue);
}

uint64_t SlidingCounter::SumAnew(uint64_t slot) const {
  return std::min(OfCompletedSlots(slot) + OfSlot(slot), slot_word::kMaxValue);
}

void SlidingCounter::Clear() {
  for (Line& line : lines_) {
    for (std::atomic<uint64_t>& word : line.words) {
      word.store(0, std::memory_order_relaxed);
    }
  }
  completed_.store(0, std::memory_order_relaxed);
}

}  // namespace retry_guard
