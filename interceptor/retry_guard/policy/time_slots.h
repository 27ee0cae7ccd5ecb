// Time cut into slots: how a sliding window is kept in a few words.
//
// A slot is a power of two of nanoseconds, so that finding it is a shift. A
// window is not a whole number of slots then, and two numbers describe it: what
// must never be counted for too long uses `full()` slots, what must never be
// forgotten too early uses `touched()` slots before the current one.
//
// A slot word is one 64-bit word of such a window: one bit says that it was
// written, 35 bits say which slot it belongs to, 28 bits are a value. Slot and
// value change together, in one compare-and-swap, so a thread that slept can
// never write into a word that serves a newer slot by now. The slot's number
// repeats after 2^35 slots: four years for a window of one second.

#ifndef RETRY_GUARD_POLICY_TIME_SLOTS_H_
#define RETRY_GUARD_POLICY_TIME_SLOTS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace retry_guard {

// A value. Immutable.
class TimeSlots {
 public:
  // Slots as long as they can be with at least `at_least` of them in `window`.
  TimeSlots(absl::Duration window, int64_t at_least) {
    const int64_t nanos =
        std::max<int64_t>(1, absl::ToInt64Nanoseconds(window));
    while (nanos >> (shift_ + 1) >= at_least) ++shift_;
    full_ = static_cast<int>(nanos >> shift_);
    touched_ = nanos == int64_t{full_} << shift_ ? full_ : full_ + 1;
  }

  // The number of the slot that `time` falls into; later is larger.
  uint64_t At(absl::Time time) const {
    return (static_cast<uint64_t>(absl::ToUnixNanos(time)) ^ kSign) >> shift_;
  }
  absl::Time StartOf(uint64_t slot) const {
    return absl::FromUnixNanos(static_cast<int64_t>((slot << shift_) ^ kSign));
  }
  absl::Duration width() const {
    return absl::Nanoseconds(int64_t{1} << shift_);
  }

  // As many slots, the current one included, lie within the window at any
  // moment of the current one.
  int full() const { return full_; }
  // As many slots before the current one can hold something that is still
  // within the window.
  int touched() const { return touched_; }
  // A power of two that holds them all, the next slot too.
  int ring_size() const {
    int size = 8;
    while (size < touched_ + 2) size *= 2;
    return size;
  }

 private:
  static constexpr uint64_t kSign = uint64_t{1} << 63;

  int shift_ = 0;
  int full_ = 1;
  int touched_ = 1;
};

namespace slot_word {

inline constexpr int kValueBits = 28;
inline constexpr uint64_t kMaxValue = (uint64_t{1} << kValueBits) - 1;
inline constexpr uint64_t kWritten = uint64_t{1} << 63;

constexpr uint64_t Pack(uint64_t slot, uint64_t value) {
  return kWritten | (slot << kValueBits & ~kWritten) | (value & kMaxValue);
}
constexpr uint64_t Value(uint64_t word) { return word & kMaxValue; }

// By how many slots `slot` is later than that of a written word; negative if
// earlier.
constexpr int64_t SlotsSince(uint64_t word, uint64_t slot) {
  const uint64_t difference =
      (slot << (kValueBits + 1)) - ((word & ~kMaxValue) << 1);
  return static_cast<int64_t>(difference) >> (kValueBits + 1);
}

constexpr bool IsOf(uint64_t word, uint64_t slot) {
  return (word & kWritten) != 0 && SlotsSince(word, slot) == 0;
}

// Whether the word serves a later slot already. Threads are late by a few slots
// at most; a word that seems far ahead was left over from long ago.
constexpr bool IsLaterThan(uint64_t word, uint64_t slot) {
  const int64_t since = SlotsSince(word, slot);
  return (word & kWritten) != 0 && since < 0 && since > -(int64_t{1} << 24);
}

// Adds to the value of `slot`, up to kMaxValue; nothing if the word serves a
// later one.
inline void Add(std::atomic<uint64_t>& word, uint64_t slot, uint64_t amount) {
  uint64_t seen = word.load(std::memory_order_relaxed);
  uint64_t next;
  do {
    if (IsLaterThan(seen, slot)) return;
    const uint64_t before = IsOf(seen, slot) ? Value(seen) : 0;
    next = Pack(slot, std::min(before + amount, kMaxValue));
    if (next == seen) return;
  } while (!word.compare_exchange_weak(seen, next, std::memory_order_relaxed));
}

// The value of `slot`, zero if the word serves another.
inline uint64_t Read(const std::atomic<uint64_t>& word, uint64_t slot) {
  const uint64_t seen = word.load(std::memory_order_relaxed);
  return IsOf(seen, slot) ? Value(seen) : 0;
}

}  // namespace slot_word
}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_TIME_SLOTS_H_
