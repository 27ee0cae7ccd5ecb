// Whole calls, as Google Benchmark cases: "UnarySync/guard/1/100" is a variant,
// how many calls are open at a time, and the bytes of a message.

#ifndef TESTS_BENCHMARK_CALL_BENCHMARK_H_
#define TESTS_BENCHMARK_CALL_BENCHMARK_H_

#include <string>
#include <vector>

#include "tests/benchmark/drivers.h"
#include "tests/benchmark/variants.h"

namespace retry_guard::benchmarks {

// What is compared variant by variant.
struct CallCase {
  std::string family;  // "UnarySync"
  Style style = Style::kSync;
  Load load;

  std::string Name(Variant variant) const;
  bool Has(Variant variant) const;
};

const std::vector<CallCase>& CallCases();

// Registers all of them. `address` is the server's.
void RegisterCallBenchmarks(const std::string& address, int repetitions,
                            double seconds);

// Makes `calls` calls of the case with that name, for a profiler to look at.
// False: there is none.
bool RunOnly(const std::string& name, const std::string& address, int calls);

}  // namespace retry_guard::benchmarks

#endif  // TESTS_BENCHMARK_CALL_BENCHMARK_H_
