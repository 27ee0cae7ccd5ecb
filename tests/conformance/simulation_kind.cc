// `simulation`: the library's jitters under contention, against reference
// means.

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/conformance/kinds.h"
#include "tests/conformance/simulation.h"

namespace retry_guard::conformance {
namespace {

constexpr double kBase = 5;
constexpr double kCap = 2000;
constexpr int kTrials = 40;
constexpr double kBucket = 50;
constexpr size_t kBuckets = 60;  // to 3000

constexpr const char* kAlgorithms[] = {"None", "Decorr", "FullJitter",
                                       "EqualJitter", "Exponential"};

struct Mean {
  double time = 0;
  double calls = 0;
};

// Each cell is run once, whatever asks for it.
const Mean& MeanOf(const std::string& algorithm, int clients, double base,
                   double cap) {
  static auto* const means = new std::map<std::string, Mean>;
  const std::string key =
      absl::StrCat(algorithm, " ", clients, " ", base, " ", cap);
  const auto [found, is_new] = means->emplace(key, Mean());
  if (!is_new) return found->second;
  Mean& mean = found->second;
  for (int trial = 0; trial < kTrials; ++trial) {
    const SimulationResult result =
        Simulate(algorithm, clients, base, cap, 1000u + trial);
    mean.time += result.time / kTrials;
    mean.calls += static_cast<double>(result.calls) / kTrials;
  }
  return mean;
}

// Writes that the server hears in each stretch of 50 units, with 100 clients.
const std::vector<double>& MeanWrites(const std::string& algorithm) {
  static auto* const means = new std::map<std::string, std::vector<double>>;
  std::vector<double>& writes = (*means)[algorithm];
  if (!writes.empty()) return writes;
  writes.resize(kBuckets, 0);
  for (int trial = 0; trial < kTrials; ++trial) {
    const SimulationResult result =
        Simulate(algorithm, 100, kBase, kCap, 1000U + trial);
    for (const double time : result.writes) {
      const auto bucket = static_cast<size_t>(time / kBucket);
      if (bucket < kBuckets) writes[bucket] += 1.0 / kTrials;
    }
  }
  return writes;
}

// The tables' own rule for comparing means: theirs of 1000 trials, ours fewer.
void CheckMean(const std::string& what, double ours, double mean, double sd,
               Report& report) {
  const double tolerance = 4 * sd * std::sqrt(1.0 / 1000 + 1.0 / kTrials);
  report.Check(
      std::abs(ours - mean) <= tolerance,
      absl::StrCat(what, ": ", ours, ", not ", mean, " +- ", tolerance));
}

void ReplayCell(const Fields& scenario, int clients, double base, double cap,
                Report& report) {
  const Fields expect = scenario.Object("expect");
  struct Cell {
    std::string algorithm;
    double time_mean, time_sd, calls_mean, calls_sd;
  };
  std::vector<Cell> cells;
  for (const std::string& algorithm : expect.Keys()) {
    if (!IsAlgorithm(algorithm)) continue;
    const Fields fields = expect.Object(algorithm.c_str());
    cells.push_back({algorithm, fields.Number("time_mean").value_or(0),
                     fields.Number("time_sd").value_or(0),
                     fields.Number("calls_mean").value_or(0),
                     fields.Number("calls_sd").value_or(0)});
  }
  if (!scenario.AllRead()) return;
  for (const Cell& cell : cells) {
    const Mean& ours = MeanOf(cell.algorithm, clients, base, cap);
    CheckMean(cell.algorithm + " time", ours.time, cell.time_mean, cell.time_sd,
              report);
    CheckMean(cell.algorithm + " calls", ours.calls, cell.calls_mean,
              cell.calls_sd, report);
  }
}

// Best first; neighbours that are close are a tie, so order is checked with a
// little patience.
void CheckOrder(const std::vector<std::string>& order, bool by_time,
                int clients, Report& report) {
  double before = 0;
  for (const std::string& algorithm : order) {
    const Mean& mean = MeanOf(algorithm, clients, kBase, kCap);
    const double value = by_time ? mean.time : mean.calls;
    report.Check(value >= before * 0.98,
                 absl::StrCat(algorithm, " is better than the one before"));
    before = value;
  }
}

// Calls per client, by number of clients.
void CheckPerClient(const Fields& expect, const char* key,
                    const std::string& algorithm, Report& report) {
  const Fields numbers = expect.Object(key);
  std::map<int, double> expected;
  for (const std::string& n : numbers.Keys()) {
    int clients = 0;
    if (!absl::SimpleAtoi(n, &clients)) continue;
    expected[clients] = numbers.Number(n.c_str()).value_or(0);
  }
  if (!report.applicable()) return;
  for (const auto& [clients, per_client] : expected) {
    const double ours = MeanOf(algorithm, clients, kBase, kCap).calls / clients;
    report.Check(std::abs(ours - per_client) <= 0.05 * per_client,
                 absl::StrCat(algorithm, " ", clients, ": ", ours));
  }
}

// Stretches of time in which the server heard nothing: a number, or ">= n".
void ReplayGaps(const Fields& scenario, Report& report) {
  const Fields expect =
      scenario.Object("expect").Object("zero_buckets_of_50_units_before_1200");
  struct Bound {
    std::string algorithm;
    double number;
    bool at_least;
  };
  std::vector<Bound> bounds;
  for (const std::string& algorithm : expect.Keys()) {
    if (!IsAlgorithm(algorithm)) continue;
    Bound bound{algorithm, 0, false};
    if (expect.IsString(algorithm.c_str())) {
      const std::string text = *expect.Text(algorithm.c_str());
      absl::string_view rest = text;
      bound.at_least = absl::ConsumePrefix(&rest, ">= ");
      if (!bound.at_least || !absl::SimpleAtod(rest, &bound.number)) {
        report.NotApplicable(expect.Path(algorithm));
      }
    } else {
      bound.number = expect.Number(algorithm.c_str()).value_or(0);
    }
    bounds.push_back(bound);
  }
  if (!scenario.AllRead()) return;
  for (const Bound& bound : bounds) {
    const std::vector<double>& writes = MeanWrites(bound.algorithm);
    const auto zero = static_cast<double>(
        std::count(writes.begin(), writes.begin() + 1200 / 50, 0.0));
    report.Check(bound.at_least ? zero >= bound.number : zero == bound.number,
                 absl::StrCat(bound.algorithm, ": ", zero, " gaps"));
  }
}

void ReplayInvariant(const Fields& scenario, Report& report) {
  scenario.Note({"for_all", "holds"});
  if (!scenario.AllRead()) return;
  for (const char* const algorithm : kAlgorithms) {
    for (unsigned trial = 0; trial < 20; ++trial) {
      const SimulationResult result =
          Simulate(algorithm, 30, kBase, kCap, trial);
      report.Equal("calls - failures", result.calls - result.failures, 30);
      report.Check(result.in_order, "time ran backwards");
    }
  }
}

}  // namespace

void ReplaySimulation(const Table& /*table*/, const Fields& scenario,
                      Report& report) {
  if (scenario.Has("for_all")) {
    ReplayInvariant(scenario, report);
    return;
  }
  const Fields config = scenario.Object("config");
  const auto clients = static_cast<int>(config.Int("clients").value_or(100));
  const double base = config.Number("base").value_or(kBase);
  const double cap = config.Number("cap").value_or(kCap);
  if (const auto hop = config.Text("hop")) {
    if (*hop != "|Normal(10,2)|") report.NotApplicable("config.hop " + *hop);
  }
  if (clients < 1 || clients > 1000) report.NotApplicable("config.clients");
  const Fields expect = scenario.Object("expect");
  if (expect.Has("zero_buckets_of_50_units_before_1200")) {
    ReplayGaps(scenario, report);
    return;
  }
  const std::vector<std::string> by_time = expect.Texts("by_time");
  const std::vector<std::string> by_calls = expect.Texts("by_calls");
  const auto ratio = expect.Number("ratio_full_to_exponential");
  const auto below = expect.Number("below");
  for (const auto* const order : {&by_time, &by_calls}) {
    for (const std::string& name : *order) {
      if (!IsAlgorithm(name)) report.NotApplicable("an algorithm " + name);
    }
  }
  if (!report.applicable()) return;
  CheckPerClient(expect, "none_per_client", "None", report);
  CheckPerClient(expect, "full_per_client", "FullJitter", report);
  if (!by_time.empty() || !by_calls.empty() || ratio.has_value() ||
      expect.Has("none_per_client") || expect.Has("full_per_client")) {
    if (!scenario.AllRead()) return;
    CheckOrder(by_time, true, clients, report);
    CheckOrder(by_calls, false, clients, report);
    if (!ratio.has_value()) return;
    const double ours = MeanOf("FullJitter", clients, base, cap).calls /
                        MeanOf("Exponential", clients, base, cap).calls;
    report.Check(std::abs(ours - *ratio) < 0.02, absl::StrCat("ratio ", ours));
    if (below.has_value()) {
      report.Check(ours < *below, absl::StrCat("ratio ", ours));
    }
    return;
  }
  ReplayCell(scenario, clients, base, cap, report);
}

// One line of means per number of clients and algorithm.
void ReplaySimulationCell(const Table& /*table*/, const Fields& scenario,
                          Report& report) {
  const Fields input = scenario.Object("input");
  const std::string algorithm = input.Text("algorithm").value_or("");
  const auto clients = input.Int("clients");
  const auto time_mean = input.Number("time_mean");
  const auto time_sd = input.Number("time_sd");
  const auto calls_mean = input.Number("calls_mean");
  const auto calls_sd = input.Number("calls_sd");
  input.Note({"trials", "time_p50", "time_p95", "calls_p50", "calls_p95",
              "calls_per_client"});
  if (!IsAlgorithm(algorithm) || !clients.has_value() || *clients < 1 ||
      *clients > 1000 || !time_mean.has_value() || !time_sd.has_value() ||
      !calls_mean.has_value() || !calls_sd.has_value()) {
    report.NotApplicable("a line that is not whole, or of another algorithm");
  }
  if (!scenario.AllRead()) return;
  const Mean& ours = MeanOf(algorithm, static_cast<int>(*clients), kBase, kCap);
  CheckMean("time", ours.time, *time_mean, *time_sd, report);
  CheckMean("calls", ours.calls, *calls_mean, *calls_sd, report);
}

// One line per algorithm and stretch of time, with 100 clients.
void ReplaySimulationSeries(const Table& /*table*/, const Fields& scenario,
                            Report& report) {
  const Fields input = scenario.Object("input");
  const std::string algorithm = input.Text("algorithm").value_or("");
  const auto start = input.Number("bucket_start");
  const auto mean = input.Number("mean_writes_per_bucket");
  const auto sd = input.Number("sd");
  if (!IsAlgorithm(algorithm) || !start.has_value() || !mean.has_value() ||
      !sd.has_value() || *start < 0 || *start >= kBucket * kBuckets) {
    report.NotApplicable("a line that is not whole, or of another algorithm");
  }
  if (!scenario.AllRead()) return;
  const double ours =
      MeanWrites(algorithm)[static_cast<size_t>(*start / kBucket)];
  // A tenth of a write more: where nothing was seen, something rare may be.
  const double tolerance = 4 * *sd * std::sqrt(1.0 / 300 + 1.0 / kTrials) + 0.1;
  report.Check(std::abs(ours - *mean) <= tolerance,
               absl::StrCat(ours, " writes, not ", *mean, " +- ", tolerance));
}

}  // namespace retry_guard::conformance
