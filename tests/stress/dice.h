// Repeatable chance: the same seed and call give the same numbers, on whatever
// thread and in whatever order they are drawn.

#ifndef RETRY_GUARD_TESTS_STRESS_DICE_H_
#define RETRY_GUARD_TESTS_STRESS_DICE_H_

#include <cstdint>

namespace retry_guard::stress {

// SplitMix64.
class Dice {
 public:
  Dice(uint64_t seed, uint64_t a, uint64_t b = 0)
      : state_(Mix(Mix(Mix(seed) + a) + b)) {}

  uint64_t Next() { return Mix(state_ += 0x9e3779b97f4a7c15u); }

  // Uniform in [low, high].
  int Between(int low, int high) {
    return low +
           static_cast<int>(Next() % static_cast<uint64_t>(high - low + 1));
  }
  bool Percent(int chance) { return Between(0, 99) < chance; }

  template <typename Container>
  auto Pick(const Container& from) {
    return *(std::begin(from) +
             Between(0, static_cast<int>(std::size(from)) - 1));
  }

 private:
  static uint64_t Mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  uint64_t state_;
};

}  // namespace retry_guard::stress

#endif  // RETRY_GUARD_TESTS_STRESS_DICE_H_
