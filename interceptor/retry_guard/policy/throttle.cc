#include "retry_guard/policy/throttle.h"

#include <algorithm>

namespace retry_guard {
namespace {

constexpr int kBits = 20;
constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;

struct Bucket {
  uint64_t level = 0;
  uint64_t max = 0;  // 0: no throttle
  uint64_t ratio = 0;
};

uint64_t Pack(const Bucket& bucket) {
  return bucket.level << (2 * kBits) | bucket.max << kBits | bucket.ratio;
}

Bucket Unpack(uint64_t word) {
  return {word >> (2 * kBits), word >> kBits & kMask, word & kMask};
}

uint64_t Clamp(int64_t value) {
  return std::clamp<int64_t>(value, 0, static_cast<int64_t>(kMask));
}

Bucket FullBucket(const std::optional<ThrottlePolicy>& policy) {
  if (!policy.has_value()) return {};
  const uint64_t max = Clamp(policy->max_milli_tokens);
  return {max, max, Clamp(policy->milli_token_ratio)};
}

// Applies `change` to the bucket; does not write what would stay the same.
template <typename Change>
void Update(std::atomic<uint64_t>& word, Change change) {
  uint64_t seen = word.load(std::memory_order_relaxed);
  uint64_t next;
  do {
    next = Pack(change(Unpack(seen)));
    if (next == seen) return;
  } while (!word.compare_exchange_weak(seen, next, std::memory_order_relaxed));
}

}  // namespace

Throttle::Throttle(const std::optional<ThrottlePolicy>& policy)
    : word_(Pack(FullBucket(policy))) {}

void Throttle::RecordSuccess() {
  Update(word_, [](Bucket bucket) {
    bucket.level = std::min(bucket.level + bucket.ratio, bucket.max);
    return bucket;
  });
}

void Throttle::RecordFailure() {
  Update(word_, [](Bucket bucket) {
    bucket.level -= std::min<uint64_t>(bucket.level, 1000);
    return bucket;
  });
}

bool Throttle::AllowsRetry() const {
  const Bucket bucket = Unpack(word_.load(std::memory_order_relaxed));
  return bucket.max == 0 || bucket.level * 2 > bucket.max;
}

std::optional<int64_t> Throttle::milli_tokens() const {
  const Bucket bucket = Unpack(word_.load(std::memory_order_relaxed));
  if (bucket.max == 0) return std::nullopt;
  return static_cast<int64_t>(bucket.level);
}

void Throttle::Reconfigure(const std::optional<ThrottlePolicy>& policy) {
  const Bucket full = FullBucket(policy);
  Update(word_, [&full](Bucket old) {
    Bucket next = full;
    if (old.max != 0) next.level = old.level * full.max / old.max;
    return next;
  });
}

}  // namespace retry_guard
