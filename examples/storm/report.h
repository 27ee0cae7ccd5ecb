// What came of a run, as numbers, as a table, as a chart and as JSON. Pure.

#ifndef EXAMPLES_STORM_REPORT_H_
#define EXAMPLES_STORM_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "scenario.h"

namespace storm {

// One request as its caller saw it.
struct Request {
  absl::Duration at;  // when it was due, from the start of the run
  bool ok = false;
  absl::Duration latency;  // until the caller's final answer
};

// One run of one mode.
struct ModeRun {
  std::string mode;
  std::vector<Request> requests;  // in the order of `at`
  // As the backend counted them, per `bucket` from the start of the run.
  std::vector<int64_t> attempts;
  absl::Duration bucket;
};

struct Metrics {
  int64_t requests = 0;
  int64_t attempts = 0;
  double amplification = 0;         // attempts / requests
  double blip_ok_ratio = 0;         // of the requests due in the blip
  double outage_amplification = 0;  // from the trouble's start to its end + 2 s
  double ok_ratio = 0;
  std::optional<absl::Duration> recovery;  // see Recovery()
  absl::Duration p99;  // latency of all requests, failed ones included
};

Metrics Measure(const Phases& phases, const ModeRun& run);

// How long after the end of the trouble the success ratio over half a second is
// above 95 % and stays there to the end of the run, in steps of 0.1 s. Nothing
// if it does not come to that. Half seconds without any request do not count.
std::optional<absl::Duration> Recovery(const Phases& phases,
                                       const std::vector<Request>& requests);

// The smallest latency that at least `fraction` of the requests do not exceed.
absl::Duration LatencyQuantile(const std::vector<Request>& requests,
                               double fraction);

// One line per mode.
std::string Table(const Phases& phases, const std::vector<ModeRun>& runs);

// Attempts per second over time, one line per mode, all to one scale; and the
// requests per second that were answered OK.
std::string Chart(const Phases& phases, const std::vector<ModeRun>& runs);

std::string Json(Outage outage, const Phases& phases,
                 const std::vector<ModeRun>& runs);

}  // namespace storm

#endif  // EXAMPLES_STORM_REPORT_H_
