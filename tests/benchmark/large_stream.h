// What long streams of large messages cost on a channel that retries: how fast
// they are, and how much of them the client holds in memory meanwhile.

#ifndef TESTS_BENCHMARK_LARGE_STREAM_H_
#define TESTS_BENCHMARK_LARGE_STREAM_H_

#include <ostream>
#include <string>

namespace retry_guard::benchmarks {

// Streams a GiB in messages of a MiB, each way whose name `only`, a regular
// expression, finds, on channels of all kinds in turn, `rounds` times, and
// prints medians.
void PrintLargeStreamTable(const std::string& address, const std::string& only,
                           int rounds, std::ostream& out);

}  // namespace retry_guard::benchmarks

#endif  // TESTS_BENCHMARK_LARGE_STREAM_H_
