// Service configs that are nearly right: good ones, changed a little at random.

#ifndef RETRY_GUARD_TESTS_CONFIG_CORE_CONFIG_MUTATOR_H_
#define RETRY_GUARD_TESTS_CONFIG_CORE_CONFIG_MUTATOR_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace retry_guard::testing {

// The same sequence for the same seed. Not thread-safe.
class ConfigMutator {
 public:
  explicit ConfigMutator(uint64_t seed) : random_(seed) {}

  // A good config with one to four changes. Most change a whole token (a value
  // for another, a key misspelt, a member gone or doubled), a few a byte. What
  // gRPC alone reads (load balancing, health checks) is never in it: a mistake
  // there is not ours to find.
  std::string Next();

 private:
  size_t Below(size_t limit) { return random_() % limit; }
  void ChangeToken(std::vector<std::string>* tokens);
  void ChangeByte(std::string* text);

  std::mt19937_64 random_;
};

// The configs that it starts from.
const std::vector<std::string>& SeedConfigs();

}  // namespace retry_guard::testing

#endif  // RETRY_GUARD_TESTS_CONFIG_CORE_CONFIG_MUTATOR_H_
