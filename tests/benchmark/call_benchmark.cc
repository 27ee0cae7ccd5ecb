#include "tests/benchmark/call_benchmark.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/benchmark/cpu_time.h"

namespace retry_guard::benchmarks {
namespace {

constexpr int kMessagesPerStream = 1000;
constexpr int kCallsPerBatch = 160;  // divides by each number of open calls
constexpr int kStreamsPerBatch = 2;

double Percentile(std::vector<float>& micros, double p) {
  const auto at =
      micros.begin() +
      static_cast<std::ptrdiff_t>(p * static_cast<double>(micros.size() - 1));
  std::nth_element(micros.begin(), at, micros.end());
  return *at;
}

void Measure(benchmark::State& state, const CallCase& what, Variant variant,
             const std::string& address) {
  const auto channel = MakeChannel(variant, address);
  const auto driver = MakeDriver(what.style, variant, channel, what.load);
  const bool stream = what.load.messages > 0;
  const int batch = stream ? kStreamsPerBatch : kCallsPerBatch;
  std::vector<float> micros;
  driver->Run(batch, &micros);  // connects, and fills the caches
  micros.clear();

  const double cpu_before = CpuMicros();
  while (state.KeepRunningBatch(batch)) driver->Run(batch, &micros);
  const double cpu = CpuMicros() - cpu_before;

  const double units =
      static_cast<double>(micros.size()) * (stream ? what.load.messages : 1);
  state.counters["p50_us"] = Percentile(micros, 0.5);
  state.counters["p99_us"] = Percentile(micros, 0.99);
  state.counters["cpu_us"] = cpu / units;
  state.counters["per_second"] =
      benchmark::Counter(units, benchmark::Counter::kIsRate);
}

std::vector<CallCase> MakeCases() {
  std::vector<CallCase> cases;
  const std::pair<const char*, Style> styles[] = {
      {"Sync", Style::kSync},
      {"Callback", Style::kCallback},
      {"Queue", Style::kQueue}};
  for (const auto& [name, style] : styles) {
    for (const int outstanding : {1, 8}) {
      for (const int bytes : {100, 64 * 1024}) {
        cases.push_back(
            {absl::StrCat("Unary", name), style, Load{outstanding, bytes, 0}});
      }
    }
  }
  for (const auto& [name, style] : styles) {
    cases.push_back({absl::StrCat("ServerStream", name), style,
                     Load{1, 100, kMessagesPerStream}});
  }
  return cases;
}

}  // namespace

std::string CallCase::Name(Variant variant) const {
  return absl::StrCat(family, "/", benchmarks::Name(variant), "/",
                      load.outstanding, "/", load.message_bytes);
}

bool CallCase::Has(Variant variant) const {
  const bool unary = load.messages == 0;
  switch (variant) {
    case Variant::kLoop:
      // Round an asynchronous call it is, as long as nothing fails, that call;
      // and nobody writes one round a stream.
      return unary && style == Style::kSync;
    case Variant::kGuardTimeout:
      return unary;
    default:
      return true;
  }
}

const std::vector<CallCase>& CallCases() {
  static const auto* const cases = new std::vector<CallCase>(MakeCases());
  return *cases;
}

void RegisterCallBenchmarks(const std::string& address, int repetitions,
                            double seconds) {
  for (const CallCase& what : CallCases()) {
    for (const Variant variant : kVariants) {
      if (!what.Has(variant)) continue;
      benchmark::RegisterBenchmark(
          what.Name(variant).c_str(),
          [&what, variant, address](benchmark::State& state) {
            Measure(state, what, variant, address);
          })
          ->MeasureProcessCPUTime()
          ->UseRealTime()
          ->MinTime(seconds)
          ->Repetitions(repetitions);
    }
  }
}

bool RunOnly(const std::string& name, const std::string& address, int calls) {
  for (const CallCase& what : CallCases()) {
    for (const Variant variant : kVariants) {
      if (what.Name(variant) != name) continue;
      const auto driver = MakeDriver(what.style, variant,
                                     MakeChannel(variant, address), what.load);
      std::vector<float> micros;
      driver->Run(calls, &micros);
      return true;
    }
  }
  return false;
}

}  // namespace retry_guard::benchmarks
