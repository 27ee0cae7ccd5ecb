// Counts events of a sliding time window.

#ifndef RETRY_GUARD_POLICY_SLIDING_COUNTER_H_
#define RETRY_GUARD_POLICY_SLIDING_COUNTER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "retry_guard/policy/export.h"
#include "retry_guard/policy/striped.h"
#include "retry_guard/policy/time_slots.h"

namespace retry_guard {

// Thread-safe, lock-free. Adding is one compare-and-swap on a line of the
// thread's own. Never counts an event for longer than the window; may forget it
// up to two slots early. Saturates at 2^28 - 1.
class RETRY_GUARD_EXPORT SlidingCounter {
 public:
  explicit SlidingCounter(const TimeSlots& slots);

  const TimeSlots& slots() const { return slots_; }

  void Add(absl::Time now, uint64_t amount = 1);

  // The events of the window that ends in slot `slot`. What was added to an
  // earlier slot after the first question about this one may be missing.
  uint64_t Sum(uint64_t slot);
  // The same, counted anew: for who must not write.
  uint64_t SumAnew(uint64_t slot) const;

  // Forgets everything. An Add at the same time may survive it.
  void Clear();

 private:
  static constexpr size_t kWordsPerLine = kCacheLine / sizeof(uint64_t);
  struct alignas(kCacheLine) Line {
    std::atomic<uint64_t> words[kWordsPerLine] = {};
  };

  // Inline: position-independent code would call it otherwise.
  size_t Index(size_t stripe, uint64_t slot) const {
    return stripe * (ring_mask_ + 1) + (slot & ring_mask_);
  }
  const std::atomic<uint64_t>& Word(size_t index) const {
    return lines_[index / kWordsPerLine].words[index % kWordsPerLine];
  }
  std::atomic<uint64_t>& Word(size_t index) {
    return lines_[index / kWordsPerLine].words[index % kWordsPerLine];
  }
  uint64_t OfSlot(uint64_t slot) const;
  uint64_t OfCompletedSlots(uint64_t slot) const;

  const TimeSlots slots_;
  const size_t ring_mask_;
  const size_t stripes_;
  std::vector<Line> lines_;  // ring after ring, one per stripe

  // A slot word: the sum of the slots of the window that are complete.
  alignas(kCacheLine) std::atomic<uint64_t> completed_{0};
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_SLIDING_COUNTER_H_
