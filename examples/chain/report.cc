#include "report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "retry_guard/policy/absl_view.h"

namespace chain {
namespace {

using retry_guard::AbslView;

// The shipped defaults.
constexpr double kBudgetRatio = 0.1;
constexpr double kBudgetMinRetries = 10;
constexpr absl::Duration kBudgetWindow = absl::Seconds(10);

// Of all clients together, if each makes all of its attempts.
int64_t AllAttempts(const ModeRun& run) {
  int64_t product = 1;
  for (size_t i = 0; i < run.layers.size(); ++i) product *= kAttempts;
  return product;
}

bool HadMoreThanItsCaller(const Arrival& arrival) {
  return arrival.effective > arrival.callers;
}

int64_t CountLonger(const LayerReport& layer) {
  return std::count_if(layer.arrivals.begin(), layer.arrivals.end(),
                       HadMoreThanItsCaller);
}

std::string Owners(const ModeRun& run) {
  std::set<std::string> owners;
  for (const LayerReport& layer : run.layers) {
    for (const Arrival& arrival : layer.arrivals) {
      owners.insert(arrival.owner.empty() ? "-" : arrival.owner);
    }
  }
  return absl::StrJoin(owners, ", ");
}

std::string MinMedianMax(const std::vector<Arrival>& arrivals,
                         absl::Duration Arrival::*time) {
  if (arrivals.empty()) return "-";
  std::vector<double> times;
  times.reserve(arrivals.size());
  for (const Arrival& arrival : arrivals) {
    times.push_back(absl::ToDoubleSeconds(arrival.*time));
  }
  std::sort(times.begin(), times.end());
  return absl::StrFormat("%.3f  %.3f  %.3f", times.front(),
                         times[times.size() / 2], times.back());
}

bool HasMarkers(const LayerReport& layer) {
  return std::any_of(layer.arrivals.begin(), layer.arrivals.end(),
                     [](const Arrival& each) { return !each.owner.empty(); });
}

std::string JsonOf(const ModeRun& run) {
  return absl::StrFormat(
      R"({"user_requests": %d, "attempts_by_layer": [%s], )"
      R"("bottom_per_request": %.4f})",
      run.user_requests,
      absl::StrJoin(run.layers, ", ",
                    [](std::string* out, const LayerReport& layer) {
                      absl::StrAppend(out, layer.arrivals.size());
                    }),
      BottomPerRequest(run));
}

// Empty if the bottom got as many attempts as the mode promises.
std::string CheckAttempts(const ModeRun& run) {
  const auto bottom = static_cast<int64_t>(run.layers.back().arrivals.size());
  if (const std::optional<double> bound = BudgetBound(run)) {
    if (BottomPerRequest(run) <= *bound) return "";
    return absl::StrFormat("%.2f attempts per request, more than %.2f",
                           BottomPerRequest(run), *bound);
  }
  const int64_t expected =
      (run.mode == Mode::kRetryGuard ? kAttempts : AllAttempts(run)) *
      run.user_requests;
  if (bottom == expected) return "";
  return absl::StrFormat("%d attempts at the bottom, not %d", bottom, expected);
}

// Empty if no attempt came with more time than the one above had, or the user.
std::string CheckDeadlines(const LayerReport& layer) {
  for (const Arrival& arrival : layer.arrivals) {
    if (HadMoreThanItsCaller(arrival) || arrival.effective > kUserTimeout) {
      return absl::StrFormat("%s had %s left, its caller %s", layer.name,
                             absl::FormatDuration(arrival.effective),
                             absl::FormatDuration(arrival.callers));
    }
  }
  return "";
}

}  // namespace

double AttemptsPerRequest(const ModeRun& run, const LayerReport& layer) {
  return static_cast<double>(layer.arrivals.size()) /
         static_cast<double>(run.user_requests);
}

double BottomPerRequest(const ModeRun& run) {
  return AttemptsPerRequest(run, run.layers.back());
}

std::optional<double> BudgetBound(const ModeRun& run) {
  if (run.mode != Mode::kRetryGuardDefaults) return std::nullopt;
  // A run that is over within a window is in one; over a longer one the windows
  // may lie so that one more begins.
  const double floors =
      run.took <= kBudgetWindow
          ? 1
          : std::ceil(absl::FDivDuration(run.took, kBudgetWindow)) + 1;
  return 1 + kBudgetRatio +
         floors * kBudgetMinRetries / static_cast<double>(run.user_requests);
}

std::string AttemptsTable(const std::vector<ModeRun>& runs) {
  std::string table = absl::StrFormat("%-20s", "");
  for (const LayerReport& layer : runs.front().layers) {
    absl::StrAppendFormat(&table, "  %9s", layer.name);
  }
  absl::StrAppend(&table, "  retried by\n");
  for (const ModeRun& run : runs) {
    absl::StrAppendFormat(&table, "%-20s", AbslView(ModeName(run.mode)));
    for (const LayerReport& layer : run.layers) {
      absl::StrAppendFormat(&table, "  %9.2f", AttemptsPerRequest(run, layer));
    }
    absl::StrAppendFormat(&table, "  %s",
                          UsesRetryGuard(run.mode) ? Owners(run) : "everybody");
    if (const std::optional<double> bound = BudgetBound(run)) {
      absl::StrAppendFormat(&table, "; the budget's bound: %.2f", *bound);
    }
    absl::StrAppend(&table, "\n");
  }
  return table;
}

std::string DeadlineTable(const std::vector<ModeRun>& runs) {
  std::string table = absl::StrFormat(
      "%-20s  %-9s  %-22s  %-22s  %s\n%-20s  %-9s  %-22s  %s\n", "", "",
      "by gRPC's deadline", "by the marker as well", "more than its caller", "",
      "", "min     median  max", "min     median  max");
  for (const ModeRun& run : runs) {
    std::string_view mode = ModeName(run.mode);
    for (const LayerReport& layer : run.layers) {
      absl::StrAppendFormat(
          &table, "%-20s  %-9s  %-22s  %-22s  %d of %d\n", AbslView(mode),
          layer.name, MinMedianMax(layer.arrivals, &Arrival::context),
          HasMarkers(layer) ? MinMedianMax(layer.arrivals, &Arrival::effective)
                            : "-",
          CountLonger(layer), layer.arrivals.size());
      mode = "";
    }
  }
  return table;
}

std::string Json(const std::vector<ModeRun>& runs) {
  return absl::StrFormat(
      "{\"modes\": {\n%s\n}}\n",
      absl::StrJoin(runs, ",\n", [](std::string* out, const ModeRun& run) {
        absl::StrAppendFormat(out, "  \"%s\": %s", AbslView(ModeName(run.mode)),
                              JsonOf(run));
      }));
}

std::vector<std::string> BrokenClaims(const std::vector<ModeRun>& runs) {
  std::vector<std::string> broken;
  for (const ModeRun& run : runs) {
    const auto check = [&](const std::string& complaint) {
      if (complaint.empty()) return;
      broken.push_back(
          absl::StrCat(AbslView(ModeName(run.mode)), ": ", complaint));
    };
    check(CheckAttempts(run));
    if (!UsesRetryGuard(run.mode)) continue;
    for (const LayerReport& layer : run.layers) check(CheckDeadlines(layer));
    const std::string owners = Owners(run);
    if (owners != kFrontend) check(absl::StrCat("retried by ", owners));
  }
  return broken;
}

}  // namespace chain
