#include "retry_guard/policy/random.h"

#include <sys/random.h>

#include <random>

#include "absl/random/random.h"

namespace retry_guard {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): the state is a plain counter, so that
// one atomic add makes it thread-safe.
constexpr uint64_t kGoldenGamma = 0x9e3779b97f4a7c15;

uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

absl::BitGen& ThreadGenerator() {
  thread_local absl::BitGen generator;
  return generator;
}

uint64_t SystemBits() {
  uint64_t bits = 0;
  if (getentropy(&bits, sizeof(bits)) == 0) return bits;
  // No such system call here, or it is forbidden.
  std::random_device device;
  bits = device();
  return bits << 32 | device();
}

}  // namespace

Random::Random(std::optional<uint64_t> seed)
    : seeded_(seed.has_value()), state_(seed.value_or(0)) {}

uint64_t Random::Bits() {
  if (!seeded_) return ThreadGenerator()();
  return Mix(state_.fetch_add(kGoldenGamma, std::memory_order_relaxed) +
             kGoldenGamma);
}

double Random::Unit() {
  // The upper 53 bits: as many as a double holds, so that 1 is never reached.
  return static_cast<double>(Bits() >> 11) * 0x1p-53;
}

std::string Random::Uuid() {
  // A UUID names one call for a server that drops twins: two processes must
  // never draw the same. A generator in memory is copied by fork(), the
  // system's is not.
  uint64_t high = seeded_ ? Bits() : SystemBits();
  uint64_t low = seeded_ ? Bits() : SystemBits();
  high = (high & ~uint64_t{0xf000}) | uint64_t{0x4000};    // version 4
  low = (low & ~(uint64_t{3} << 62)) | uint64_t{2} << 62;  // RFC 4122

  constexpr char kHex[] = "0123456789abcdef";
  std::string uuid;
  uuid.reserve(36);
  for (int nibble = 0; nibble < 32; ++nibble) {
    if (nibble == 8 || nibble == 12 || nibble == 16 || nibble == 20) {
      uuid += '-';
    }
    const uint64_t half = nibble < 16 ? high : low;
    uuid += kHex[half >> (60 - 4 * (nibble % 16)) & 0xf];
  }
  return uuid;
}

}  // namespace retry_guard
