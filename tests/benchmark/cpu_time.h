// What this process has used of the processors.

#ifndef TESTS_BENCHMARK_CPU_TIME_H_
#define TESTS_BENCHMARK_CPU_TIME_H_

#include <sys/resource.h>

namespace retry_guard::benchmarks {

// Of all its threads, in microseconds.
inline double CpuMicros() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto micros = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 +
           static_cast<double>(time.tv_usec);
  };
  return micros(usage.ru_utime) + micros(usage.ru_stime);
}

}  // namespace retry_guard::benchmarks

#endif  // TESTS_BENCHMARK_CPU_TIME_H_
