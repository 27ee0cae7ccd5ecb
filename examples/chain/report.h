// What came of a run, as tables, as JSON, and whether it is as claimed. Pure.

#ifndef EXAMPLES_CHAIN_REPORT_H_
#define EXAMPLES_CHAIN_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "scenario.h"

namespace chain {

// One attempt, as the layer that received it saw it.
struct Arrival {
  absl::Duration context;    // time left by the deadline that gRPC delivers
  absl::Duration effective;  // by that and the retry marker
  absl::Duration callers;    // what its caller had left when it began the call
  std::string owner;         // who retries, by the marker; empty: no marker
};

struct LayerReport {
  std::string name;
  std::vector<Arrival> arrivals;
};

struct ModeRun {
  Mode mode = Mode::kNaive;
  int64_t user_requests = 0;
  absl::Duration took;              // all user requests together
  std::vector<LayerReport> layers;  // from the outermost to the bottom
};

double AttemptsPerRequest(const ModeRun& run, const LayerReport& layer);
double BottomPerRequest(const ModeRun& run);

// How many attempts per request the bottom may get under the budget: 1.1 and
// the floor of 10 retries per window. Nothing in modes without one.
std::optional<double> BudgetBound(const ModeRun& run);

std::string AttemptsTable(const std::vector<ModeRun>& runs);
std::string DeadlineTable(const std::vector<ModeRun>& runs);
std::string Json(const std::vector<ModeRun>& runs);

// What is not as the README claims, a line each.
std::vector<std::string> BrokenClaims(const std::vector<ModeRun>& runs);

}  // namespace chain

#endif  // EXAMPLES_CHAIN_REPORT_H_
