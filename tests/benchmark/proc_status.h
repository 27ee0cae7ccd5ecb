// What the system says of this process.

#ifndef TESTS_BENCHMARK_PROC_STATUS_H_
#define TESTS_BENCHMARK_PROC_STATUS_H_

#include <cstdint>
#include <fstream>
#include <string>

namespace retry_guard::benchmarks {

// The number behind `key` ("Threads:") in /proc/self/status; 0 if it is not
// there.
inline int64_t ProcStatus(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != key) continue;
    int64_t number = 0;
    status >> number;
    return number;
  }
  return 0;
}

}  // namespace retry_guard::benchmarks

#endif  // TESTS_BENCHMARK_PROC_STATUS_H_
