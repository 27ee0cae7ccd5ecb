#include "tests/benchmark/table.h"

#include <cmath>
#include <limits>
#include <ostream>

#include "absl/strings/str_format.h"
#include "tests/benchmark/median.h"

namespace retry_guard::benchmarks {
namespace {

std::string Ratio(double a, double b) {
  return std::isnan(a / b) ? "-" : absl::StrFormat("%.2f", a / b);
}

bool IsCompared(Variant variant) {
  return variant == Variant::kNative || variant == Variant::kGuard ||
         variant == Variant::kGuardTimeout;
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
  return benchmarks::Median(found->second);
}

void PrintCallTable(const Collector& collected,
                    const std::map<std::string, double>& instructions,
                    std::ostream& out) {
  const auto instructions_of = [&](const std::string& name) {
    const auto counted = instructions.find(name);
    return counted == instructions.end()
               ? std::numeric_limits<double>::quiet_NaN()
               : counted->second;
  };
  const auto print_ratios = [&](const CallCase& what, Variant variant) {
    const std::string name = what.Name(variant);
    for (const Variant other :
         {Variant::kBare, Variant::kInterceptor, Variant::kNative}) {
      if (other == variant) continue;
      const std::string base = what.Name(other);
      const auto over_base = [&](const char* counter) {
        return Ratio(collected.Median(name, counter),
                     collected.Median(base, counter));
      };
      out << absl::StreamFormat(
          "  %s %s/%s/%s", Name(other), over_base("p50_us"),
          over_base("cpu_us"),
          Ratio(instructions_of(name), instructions_of(base)));
    }
  };
  if (collected.empty()) return;
  out << absl::StreamFormat("%-34s %8s %8s %9s %8s %8s   %s\n", "case",
                            "p50 us", "p99 us", "per s", "CPU us", "instr.",
                            "p50/CPU/instr. over bare, interceptor, native");
  for (const CallCase& what : CallCases()) {
    bool any = false;
    for (const Variant variant : kVariants) {
      const std::string name = what.Name(variant);
      const auto median = [&](const char* counter) {
        return collected.Median(name, counter);
      };
      if (std::isnan(median("p50_us"))) continue;
      any = true;
      const double counted = instructions_of(name);
      out << absl::StreamFormat(
          "%-34s %8.1f %8.1f %9.0f %8.2f %8s ", name, median("p50_us"),
          median("p99_us"), median("per_second"), median("cpu_us"),
          std::isnan(counted) ? "-" : absl::StrFormat("%.0f", counted));
      if (IsCompared(variant)) print_ratios(what, variant);
      out << "\n";
    }
    if (any) out << "\n";
  }
}

}  // namespace retry_guard::benchmarks
