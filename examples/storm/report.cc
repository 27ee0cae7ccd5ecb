#include "report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace storm {
namespace {

constexpr absl::Duration kAfterTrouble = absl::Seconds(2);
constexpr absl::Duration kRecoveryWindow = absl::Milliseconds(500);
constexpr absl::Duration kRecoveryStep = absl::Milliseconds(100);
constexpr double kRecovered = 0.95;

double Quotient(int64_t part, int64_t whole) {
  return whole == 0 ? 0
                    : static_cast<double>(part) / static_cast<double>(whole);
}

double PerSecond(int64_t count, absl::Duration time) {
  return static_cast<double>(count) / absl::ToDoubleSeconds(time);
}

struct Tally {
  int64_t requests = 0;
  int64_t ok = 0;

  double Ratio() const { return Quotient(ok, requests); }
};

Tally Count(const std::vector<Request>& requests, absl::Duration from,
            absl::Duration to) {
  Tally tally;
  for (const Request& request : requests) {
    if (request.at < from || request.at >= to) continue;
    ++tally.requests;
    tally.ok += request.ok ? 1 : 0;
  }
  return tally;
}

int64_t CountAttempts(const ModeRun& run, absl::Duration from,
                      absl::Duration to) {
  int64_t sum = 0;
  for (size_t i = 0; i < run.attempts.size(); ++i) {
    const absl::Duration at = static_cast<int64_t>(i) * run.bucket;
    if (at >= from && at < to) sum += run.attempts[i];
  }
  return sum;
}

// "▁▂▃" for each value, the top one for `full`. Nothing at all is a dot, and
// whatever is more than nothing shows.
std::string Sparkline(const std::vector<double>& values, double full) {
  constexpr const char* kLevels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr auto kTop = static_cast<int>(std::size(kLevels)) - 1;
  std::string line;
  for (double value : values) {
    if (value <= 0) {
      absl::StrAppend(&line, "·");
      continue;
    }
    const int level = static_cast<int>(std::lround(value / full * (kTop + 1)));
    absl::StrAppend(&line, kLevels[std::clamp(level - 1, 0, kTop)]);
  }
  return line;
}

// The names of the phases over the columns that they take.
std::string Ruler(const Phases& phases, absl::Duration column) {
  std::string ruler;
  std::string_view last;
  for (absl::Duration at; at < phases.End(); at += column) {
    const std::string_view name = phases.NameAt(at);
    if (name == last) continue;
    last = name;
    ruler.resize(static_cast<size_t>(at / column), ' ');
    ruler += '|';
    ruler += name;
  }
  return ruler;
}

// Fine enough for the name of each phase to fit, coarse enough for a terminal.
absl::Duration Column(const Phases& phases) {
  return phases.End() > absl::Seconds(10) ? absl::Milliseconds(500)
                                          : absl::Milliseconds(100);
}

using PerColumn = std::vector<double> (*)(const Phases&, const ModeRun&,
                                          absl::Duration column);

std::vector<double> AttemptsPerSecond(const Phases& phases, const ModeRun& run,
                                      absl::Duration column) {
  std::vector<double> rates;
  for (absl::Duration at; at < phases.End(); at += column) {
    rates.push_back(PerSecond(CountAttempts(run, at, at + column), column));
  }
  return rates;
}

std::vector<double> SuccessesPerSecond(const Phases& phases, const ModeRun& run,
                                       absl::Duration column) {
  std::vector<double> rates;
  for (absl::Duration at; at < phases.End(); at += column) {
    rates.push_back(PerSecond(Count(run.requests, at, at + column).ok, column));
  }
  return rates;
}

std::string ChartOf(std::string_view title, const Phases& phases,
                    const std::vector<ModeRun>& runs, PerColumn per_column) {
  const absl::Duration column = Column(phases);
  std::vector<std::vector<double>> rates;
  double full = 1;
  for (const ModeRun& run : runs) {
    rates.push_back(per_column(phases, run, column));
    for (double rate : rates.back()) full = std::max(full, rate);
  }
  std::string chart = absl::StrFormat("%s (one column = %s, █ = %.0f)\n", title,
                                      absl::FormatDuration(column), full);
  absl::StrAppendFormat(&chart, "%-13s %s\n", "", Ruler(phases, column));
  for (size_t i = 0; i < runs.size(); ++i) {
    absl::StrAppendFormat(&chart, "%-13s %s  max %.0f\n", runs[i].mode,
                          Sparkline(rates[i], full),
                          *std::max_element(rates[i].begin(), rates[i].end()));
  }
  return chart;
}

std::string JsonOf(const Metrics& metrics) {
  return absl::StrFormat(
      R"({"requests": %d, "attempts": %d, "amplification": %.4f, )"
      R"("blip_ok_ratio": %.4f, "outage_amplification": %.4f, )"
      R"("ok_ratio": %.4f, "recovery_s": %s, "p99_ms": %.1f})",
      metrics.requests, metrics.attempts, metrics.amplification,
      metrics.blip_ok_ratio, metrics.outage_amplification, metrics.ok_ratio,
      metrics.recovery
          ? absl::StrFormat("%.1f", absl::ToDoubleSeconds(*metrics.recovery))
          : "null",
      absl::ToDoubleMilliseconds(metrics.p99));
}

}  // namespace

Metrics Measure(const Phases& phases, const ModeRun& run) {
  const absl::Duration forever = absl::InfiniteDuration();
  const absl::Duration outage_end = phases.TroubleEnd() + kAfterTrouble;
  const Tally all = Count(run.requests, absl::ZeroDuration(), forever);
  Metrics metrics;
  metrics.requests = all.requests;
  metrics.attempts = CountAttempts(run, absl::ZeroDuration(), forever);
  metrics.amplification = Quotient(metrics.attempts, metrics.requests);
  metrics.blip_ok_ratio =
      Count(run.requests, phases.BlipStart(), phases.TroubleStart()).Ratio();
  metrics.outage_amplification =
      Quotient(CountAttempts(run, phases.TroubleStart(), outage_end),
               Count(run.requests, phases.TroubleStart(), outage_end).requests);
  metrics.ok_ratio = all.Ratio();
  metrics.recovery = Recovery(phases, run.requests);
  metrics.p99 = LatencyQuantile(run.requests, 0.99);
  return metrics;
}

std::optional<absl::Duration> Recovery(const Phases& phases,
                                       const std::vector<Request>& requests) {
  // From the last half second backwards to the first that is bad.
  std::optional<absl::Duration> recovered;
  for (absl::Duration from = phases.End() - kRecoveryWindow;
       from >= phases.TroubleEnd(); from -= kRecoveryStep) {
    const Tally tally = Count(requests, from, from + kRecoveryWindow);
    if (tally.requests > 0 && tally.Ratio() <= kRecovered) break;
    recovered = from - phases.TroubleEnd();
  }
  return recovered;
}

absl::Duration LatencyQuantile(const std::vector<Request>& requests,
                               double fraction) {
  if (requests.empty()) return absl::ZeroDuration();
  std::vector<absl::Duration> latencies;
  latencies.reserve(requests.size());
  for (const Request& request : requests) latencies.push_back(request.latency);
  const auto rank = static_cast<ptrdiff_t>(
      std::ceil(fraction * static_cast<double>(latencies.size())));
  const auto nth = latencies.begin() + std::max<ptrdiff_t>(rank - 1, 0);
  std::nth_element(latencies.begin(), nth, latencies.end());
  return *nth;
}

std::string Table(const Phases& phases, const std::vector<ModeRun>& runs) {
  std::string table =
      "              requests  attempts  amplification  blip ok  outage "
      "amplification      ok  recovery      p99\n";
  for (const ModeRun& run : runs) {
    const Metrics metrics = Measure(phases, run);
    absl::StrAppendFormat(
        &table,
        "%-13s %8d  %8d  %13.2f  %6.2f%%  %20.2f  %5.1f%%  %8s  %4.0f ms\n",
        run.mode, metrics.requests, metrics.attempts, metrics.amplification,
        100 * metrics.blip_ok_ratio, metrics.outage_amplification,
        100 * metrics.ok_ratio,
        metrics.recovery ? absl::StrFormat("%.1f s", absl::ToDoubleSeconds(
                                                         *metrics.recovery))
                         : "never",
        absl::ToDoubleMilliseconds(metrics.p99));
  }
  return table;
}

std::string Chart(const Phases& phases, const std::vector<ModeRun>& runs) {
  return absl::StrCat(ChartOf("Attempts per second at the backend", phases,
                              runs, AttemptsPerSecond),
                      "\n",
                      ChartOf("Requests per second answered OK", phases, runs,
                              SuccessesPerSecond));
}

std::string Json(Outage outage, const Phases& phases,
                 const std::vector<ModeRun>& runs) {
  return absl::StrFormat(
      "{\"outage\": \"%s\", \"modes\": {\n%s\n}}\n", OutageName(outage),
      absl::StrJoin(runs, ",\n",
                    [&phases](std::string* out, const ModeRun& run) {
                      absl::StrAppendFormat(out, "  \"%s\": %s", run.mode,
                                            JsonOf(Measure(phases, run)));
                    }));
}

}  // namespace storm
