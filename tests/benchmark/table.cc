#include "tests/benchmark/table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"

namespace retry_guard::benchmarks {
namespace {

std::string Ratio(double a, double b) {
  return std::isnan(a / b) ? "-" : absl::StrFormat("%.2f", a / b);
}

}  // namespace

Collector::Collector(std::ostream* json) : has_json_(json != nullptr) {
  if (has_json_) json_.SetOutputStream(json);
}

Collector::~Collector() {
  if (context_reported_ && has_json_) json_.Finalize();
}

bool Collector::ReportContext(const Context& context) {
  // Once for each group of cases; the file wants it once.
  if (!context_reported_ && has_json_) json_.ReportContext(context);
  context_reported_ = true;
  return true;
}

void Collector::ReportRuns(const std::vector<Run>& runs) {
  if (has_json_) json_.ReportRuns(runs);
  for (const Run& run : runs) {
    if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
    // Without the settings that Google Benchmark appends.
    auto& values = values_[run.run_name.function_name];
    for (const auto& [name, counter] : run.counters) {
      values[name].push_back(counter.value);
    }
    values[kNanos].push_back(run.real_accumulated_time * 1e9 /
                             static_cast<double>(run.iterations));
  }
}

double Collector::Median(const std::string& name,
                         const std::string& counter) const {
  const auto run = values_.find(name);
  if (run == values_.end()) return std::numeric_limits<double>::quiet_NaN();
  const auto found = run->second.find(counter);
  if (found == run->second.end()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::vector<double> sorted = found->second;
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle]
                                : (sorted[middle - 1] + sorted[middle]) / 2;
}

std::vector<std::string> Collector::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, ignored] : values_) names.push_back(name);
  return names;
}

void PrintCallTable(const Collector& collected,
                    const std::map<std::string, double>& instructions,
                    std::ostream& out) {
  out << absl::StreamFormat("%-34s %8s %8s %9s %8s %8s   %s\n", "case",
                            "p50 us", "p99 us", "per s", "CPU us", "instr.",
                            "p50 and CPU over bare, interceptor, native");
  for (const CallCase& what : CallCases()) {
    bool any = false;
    for (const Variant variant : kVariants) {
      const std::string name = what.Name(variant);
      const double p50 = collected.Median(name, "p50_us");
      if (std::isnan(p50)) continue;
      any = true;
      const double cpu = collected.Median(name, "cpu_us");
      const auto counted = instructions.find(name);
      out << absl::StreamFormat("%-34s %8.1f %8.1f %9.0f %8.2f %8s", name, p50,
                                collected.Median(name, "p99_us"),
                                collected.Median(name, "per_second"), cpu,
                                counted == instructions.end()
                                    ? "-"
                                    : absl::StrFormat("%.0f", counted->second));
      if (variant == Variant::kGuard || variant == Variant::kNative) {
        out << "  ";
        for (const Variant other :
             {Variant::kBare, Variant::kInterceptor, Variant::kNative}) {
          if (other == variant) continue;
          const std::string base = what.Name(other);
          out << absl::StreamFormat(
              " %s %s/%s", Name(other),
              Ratio(p50, collected.Median(base, "p50_us")),
              Ratio(cpu, collected.Median(base, "cpu_us")));
        }
      }
      out << "\n";
    }
    if (any) out << "\n";
  }
}

void PrintPolicyTable(const Collector& collected, std::ostream& out) {
  for (const std::string& name : collected.Names()) {
    if (!std::isnan(collected.Median(name, "p50_us"))) continue;
    out << absl::StreamFormat("%-44s %10.1f ns\n", name,
                              collected.MedianNanos(name));
  }
}

}  // namespace retry_guard::benchmarks
