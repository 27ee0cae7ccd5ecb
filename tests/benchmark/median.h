// The figure that stands for several rounds.

#ifndef TESTS_BENCHMARK_MEDIAN_H_
#define TESTS_BENCHMARK_MEDIAN_H_

#include <algorithm>
#include <vector>

namespace retry_guard::benchmarks {

// REQUIRES: `values` is not empty.
inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace retry_guard::benchmarks

#endif  // TESTS_BENCHMARK_MEDIAN_H_
