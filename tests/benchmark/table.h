// The medians of all rounds, and how the variants compare.

#ifndef TESTS_BENCHMARK_TABLE_H_
#define TESTS_BENCHMARK_TABLE_H_

#include <benchmark/benchmark.h>

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "tests/benchmark/call_benchmark.h"

namespace retry_guard::benchmarks {

// Keeps what every run has measured, and passes it on to the reporter of a
// JSON file, if there is one.
class Collector final : public benchmark::BenchmarkReporter {
 public:
  explicit Collector(std::ostream* json);
  ~Collector() override;

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;

  bool empty() const { return values_.empty(); }

  // Of a counter over all rounds of a case. NaN if it did not run.
  double Median(const std::string& name, const std::string& counter) const;

  // Of the wall time per iteration, in nanoseconds, of the micro-benchmarks.
  double MedianNanos(const std::string& name) const {
    return Median(name, kNanos);
  }

 private:
  static constexpr char kNanos[] = "ns";

  benchmark::JSONReporter json_;
  bool has_json_ = false;
  bool context_reported_ = false;
  std::map<std::string, std::map<std::string, std::vector<double>>> values_;
};

// `instructions` by case name, of the client per call; may be empty.
void PrintCallTable(const Collector& collected,
                    const std::map<std::string, double>& instructions,
                    std::ostream& out);

}  // namespace retry_guard::benchmarks

#endif  // TESTS_BENCHMARK_TABLE_H_
