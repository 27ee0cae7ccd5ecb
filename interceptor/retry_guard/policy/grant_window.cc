#include "retry_guard/policy/grant_window.h"

namespace retry_guard {
GrantWindow::GrantWindow(const TimeSlots& slots)
    : slots_(slots),
      ring_mask_(slots.ring_size() - 1),
      first_(absl::InfinitePast()),
      starts_(slots.ring_size()),
      returns_(slots.ring_size()),
      head_(0) {}

GrantWindow::GrantWindow(const TimeSlots& slots, const Legacy& legacy)
    : slots_(slots),
      ring_mask_(slots.ring_size() - 1),
      first_(legacy.at),
      starts_(slots.ring_size()),
      returns_(slots.ring_size()),
      head_(slot_word::Pack(slots.At(legacy.at), legacy.used)) {
  const uint64_t slot = slots.At(legacy.at);
  starts_[Index(slot)].store(slot_word::Pack(slot, 0),
                             std::memory_order_relaxed);
}

// The start is published first: whoever sees the new slot finds it. If grants
// of the old slot come between, they count as the new one's, a slot too long.
void GrantWindow::Advance(uint64_t head, uint64_t slot) {
  const uint64_t start = slot_word::Pack(slot, slot_word::Value(head));
  std::atomic<uint64_t>& word = starts_[Index(slot)];
  uint64_t seen = word.load(std::memory_order_acquire);
  while (!slot_word::IsOf(seen, slot) && !slot_word::IsLaterThan(seen, slot)) {
    if (word.compare_exchange_weak(seen, start, std::memory_order_acq_rel)) {
      break;
    }
  }
  head_.compare_exchange_strong(head, start, std::memory_order_acq_rel);
}

// The window begins at the lowest start in it. Slots in which nothing was asked
// have none; one that was published late may be too low, which counts too much
// rather than too little.
uint64_t GrantWindow::SearchBase(uint64_t slot, uint64_t granted) const {
  uint64_t most = 0;
  for (int age = 0; age <= slots_.touched(); ++age) {
    const uint64_t start =
        starts_[Index(slot - age)].load(std::memory_order_acquire);
    if (slot_word::IsOf(start, slot - age)) {
      most = std::max(most, Difference(granted, slot_word::Value(start)));
    }
  }
  return granted - most;
}

uint64_t GrantWindow::StoreBase(uint64_t slot, uint64_t granted) {
  const uint64_t base = slot_word::Pack(slot, SearchBase(slot, granted));
  base_.store(base, std::memory_order_relaxed);
  return slot_word::Value(base);
}

uint64_t GrantWindow::Returned(uint64_t slot) const {
  const uint64_t newest = newest_return_.load(std::memory_order_acquire);
  if (newest == 0 || slot_word::SlotsSince(newest, slot) > slots_.touched()) {
    return 0;
  }
  uint64_t sum = 0;
  for (int age = 0; age <= slots_.touched(); ++age) {
    sum += slot_word::Read(returns_[Index(slot - age)], slot - age);
  }
  return sum;
}

void GrantWindow::GiveBack(absl::Time granted_at) {
  if (granted_at < first_) return;
  const uint64_t slot = slots_.At(granted_at);
  slot_word::Add(returns_[Index(slot)], slot, 1);
  uint64_t newest = newest_return_.load(std::memory_order_relaxed);
  while (!slot_word::IsOf(newest, slot) &&
         !slot_word::IsLaterThan(newest, slot)) {
    if (newest_return_.compare_exchange_weak(newest, slot_word::Pack(slot, 1),
                                             std::memory_order_release)) {
      break;
    }
  }
}

GrantWindow::State GrantWindow::At(absl::Time now) const {
  uint64_t slot = slots_.At(now);
  const uint64_t head = head_.load(std::memory_order_acquire);
  if (head == kFrozen) return {slot, kMostUsed};
  if (slot_word::IsLaterThan(head, slot)) {
    slot -= slot_word::SlotsSince(head, slot);
  }
  const uint64_t granted = slot_word::Value(head);
  const uint64_t all = Difference(granted, SearchBase(slot, granted));
  return {slot, all - std::min(all, Returned(slot))};
}

bool GrantWindow::IsFull(absl::Time now, uint64_t limit) {
  const uint64_t slot = slots_.At(now);
  const uint64_t head = head_.load(std::memory_order_acquire);
  if (head == kFrozen || !slot_word::IsOf(head, slot)) return false;
  auto allows = [limit](uint64_t, uint64_t used) { return used < limit; };
  return !IsAllowed(slot, slot_word::Value(head), allows);
}

GrantWindow::Legacy GrantWindow::Freeze(absl::Time now) {
  const uint64_t head = head_.exchange(kFrozen, std::memory_order_acq_rel);
  Legacy legacy;
  legacy.at = now;
  if (head == 0) return legacy;
  uint64_t slot = slots_.At(now);
  if (slot_word::IsLaterThan(head, slot)) {
    slot -= slot_word::SlotsSince(head, slot);
    legacy.at = slots_.StartOf(slot);
  }
  const uint64_t granted = slot_word::Value(head);
  const uint64_t all = Difference(granted, SearchBase(slot, granted));
  legacy.used = all - std::min(all, Returned(slot));
  return legacy;
}

}  // namespace retry_guard
