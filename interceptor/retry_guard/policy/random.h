// Randomness as an object: policies are handed a number in [0, 1), never a
// generator of their own, so that a test can assert exact delays.

#ifndef RETRY_GUARD_POLICY_RANDOM_H_
#define RETRY_GUARD_POLICY_RANDOM_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "retry_guard/policy/export.h"

namespace retry_guard {

// Thread-safe, lock-free. Without a seed the numbers come from a generator per
// thread that the system seeds; with one (tests, simulations) the sequence is
// the same in every run, as long as one thread asks.
class RETRY_GUARD_EXPORT Random {
 public:
  explicit Random(std::optional<uint64_t> seed = std::nullopt);

  // Uniform in [0, 1).
  double Unit();

  // Uniform over all 64-bit numbers.
  uint64_t Bits();

  // A random UUID (RFC 4122, version 4), in lower case.
  std::string Uuid();

 private:
  const bool seeded_;
  std::atomic<uint64_t> state_;
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_RANDOM_H_
