// What guards and calls take of memory, in bytes as malloc counts them.

#ifndef TESTS_BENCHMARK_MEMORY_H_
#define TESTS_BENCHMARK_MEMORY_H_

#include <iosfwd>
#include <string>

namespace retry_guard::benchmarks {

void PrintMemoryTable(const std::string& address, std::ostream& out);

}  // namespace retry_guard::benchmarks

#endif  // TESTS_BENCHMARK_MEMORY_H_
