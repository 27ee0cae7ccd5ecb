// Grants at most so many things per sliding window, exactly: of 200 threads
// that ask at once for the last three, three get one.
//
// All grants ever are one counter, and a grant is one compare-and-swap on it,
// which fails if any other grant came between the look and the leap. What the
// counter stood at when a slot began is kept in a ring; the grants of a window
// are the difference. The counter's word carries the current slot too, so that
// every grant belongs to one slot, and slots never go back.

#ifndef RETRY_GUARD_POLICY_GRANT_WINDOW_H_
#define RETRY_GUARD_POLICY_GRANT_WINDOW_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "retry_guard/policy/export.h"
#include "retry_guard/policy/striped.h"
#include "retry_guard/policy/time_slots.h"

namespace retry_guard {

// Thread-safe, lock-free. Never forgets a grant before the window is over; may
// remember it for up to two slots longer.
class RETRY_GUARD_EXPORT GrantWindow {
 public:
  // What one window hands over to the next when its parameters change.
  struct Legacy {
    absl::Time at = absl::InfinitePast();
    uint64_t used = 0;
  };

  explicit GrantWindow(const TimeSlots& slots);
  // Starts as if `legacy.used` had been granted at `legacy.at`.
  GrantWindow(const TimeSlots& slots, const Legacy& legacy);

  const TimeSlots& slots() const { return slots_; }

  // Grants one if `allows(slot, used)`: whether one more may be granted in
  // `slot`, at the end of whose window `used` are granted already. Returns when
  // it was granted, which is a little after `now` for a thread that is late.
  template <typename Allows>
  std::optional<absl::Time> TryGrant(absl::Time now, Allows allows) {
    const uint64_t own = slots_.At(now);
    while (true) {
      uint64_t head = head_.load(std::memory_order_acquire);
      if (head == kFrozen) return std::nullopt;
      if (!slot_word::IsOf(head, own) && !slot_word::IsLaterThan(head, own)) {
        Advance(head, own);
        continue;
      }
      const uint64_t slot = own - slot_word::SlotsSince(head, own);
      if (!IsAllowed(slot, slot_word::Value(head), allows)) {
        return std::nullopt;
      }
      const uint64_t next = slot_word::Pack(slot, slot_word::Value(head) + 1);
      if (head_.compare_exchange_strong(head, next,
                                        std::memory_order_acq_rel)) {
        return slot == own ? now : slots_.StartOf(slot);
      }
    }
  }

  // Undoes a grant. Has no effect on one that the window has left behind, or
  // that an older GrantWindow gave.
  void GiveBack(absl::Time granted_at);

  // How many count at `now`, and in which slot.
  struct State {
    uint64_t slot;
    uint64_t used;
  };
  State At(absl::Time now) const;

  // Whether `limit` are used for certain: cheap, and false when in doubt.
  bool IsFull(absl::Time now, uint64_t limit);

  // Grants nothing from now on, and tells what was granted. For the one who
  // replaces this window.
  Legacy Freeze(absl::Time now);
  bool frozen() const {
    return head_.load(std::memory_order_acquire) == kFrozen;
  }

 private:
  // Differences of the counter are exact below 2^28; stop well before that.
  static constexpr uint64_t kMostUsed =
      slot_word::kMaxValue - (uint64_t{1} << 16);
  static constexpr uint64_t kFrozen = 1;  // no written word

  size_t Index(uint64_t slot) const { return slot & ring_mask_; }
  void Advance(uint64_t head, uint64_t slot);
  uint64_t SearchBase(uint64_t slot, uint64_t granted) const;
  uint64_t Base(uint64_t slot, uint64_t granted) {
    const uint64_t base = base_.load(std::memory_order_relaxed);
    if (slot_word::IsOf(base, slot)) return slot_word::Value(base);
    return StoreBase(slot, granted);
  }
  uint64_t StoreBase(uint64_t slot, uint64_t granted);
  uint64_t Returned(uint64_t slot) const;
  static uint64_t Difference(uint64_t later, uint64_t earlier) {
    return (later - earlier) & slot_word::kMaxValue;
  }

  template <typename Allows>
  bool IsAllowed(uint64_t slot, uint64_t granted, Allows& allows) {
    const uint64_t used = Difference(granted, Base(slot, granted));
    if (used >= kMostUsed) return false;
    if (allows(slot, used)) return true;
    // What was given back is looked for only when it matters.
    const uint64_t returned = std::min(used, Returned(slot));
    return returned != 0 && allows(slot, used - returned);
  }

  const TimeSlots slots_;
  const size_t ring_mask_;
  const absl::Time first_;  // what was granted before is not ours to take back

  // Slot words. `starts_`: what the counter stood at when the slot began, or a
  // little before that. `returns_`: how many grants of the slot were undone.
  std::vector<std::atomic<uint64_t>> starts_;
  std::vector<std::atomic<uint64_t>> returns_;

  // Slot word: the current slot and all grants ever, modulo 2^28.
  alignas(kCacheLine) std::atomic<uint64_t> head_;
  // Slot word: where the window of the current slot starts counting from.
  std::atomic<uint64_t> base_{0};
  // Slot word: the newest slot of which a grant was undone.
  std::atomic<uint64_t> newest_return_{0};
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_GRANT_WINDOW_H_
