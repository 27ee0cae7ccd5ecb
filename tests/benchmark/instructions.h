// Instructions that the client runs per call, as callgrind counts them: unlike
// times, the same on a busy machine.

#ifndef TESTS_BENCHMARK_INSTRUCTIONS_H_
#define TESTS_BENCHMARK_INSTRUCTIONS_H_

#include <map>
#include <string>

namespace retry_guard::benchmarks {

// For the cases with one open call whose names match `only`: by case name.
// Empty if there is no valgrind.
std::map<std::string, double> CountInstructions(const std::string& address,
                                                const std::string& only);

}  // namespace retry_guard::benchmarks

#endif  // TESTS_BENCHMARK_INSTRUCTIONS_H_
