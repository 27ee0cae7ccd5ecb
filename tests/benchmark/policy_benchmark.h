// What the parts of a decision cost, on 1, 2 and 4 threads, and beside the same
// under one mutex.

#ifndef TESTS_BENCHMARK_POLICY_BENCHMARK_H_
#define TESTS_BENCHMARK_POLICY_BENCHMARK_H_

#include <iosfwd>
#include <string>
#include <vector>

#include "tests/benchmark/table.h"

namespace retry_guard::benchmarks {

void RegisterPolicyBenchmarks(const std::string& address, int repetitions,
                              double seconds);

// The beginnings of their names, to run them group by group.
std::vector<std::string> PolicyGroups();

// The refusal of a whole call is compared with a bare one, if that has run.
void PrintPolicyTable(const Collector& collected, std::ostream& out);

}  // namespace retry_guard::benchmarks

#endif  // TESTS_BENCHMARK_POLICY_BENCHMARK_H_
