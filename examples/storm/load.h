// An open-loop load: requests go out by a schedule, whatever became of the ones
// before. Users do not wait for each other's answers.

#ifndef EXAMPLES_STORM_LOAD_H_
#define EXAMPLES_STORM_LOAD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/support/status.h"
#include "report.h"

namespace storm {

// Poisson arrivals at `per_second` until `length`: the same for the same seed.
std::vector<absl::Duration> MakeSchedule(double per_second,
                                         absl::Duration length, uint64_t seed);

// Called once, from any thread, with what the caller of a request would see.
using Done = std::function<void(const grpc::Status&)>;

// Starts one request and returns at once.
using Send = std::function<void(Done done)>;

// Thread-safe; for the progress line.
struct LoadProgress {
  std::atomic<int64_t> ok{0};
  std::atomic<int64_t> failed{0};
};

// Sends one request at `start` + each time of the schedule, and returns when
// all of them are answered. Latency counts from the scheduled time, so that a
// sender that lags does not hide it.
std::vector<Request> RunLoad(const std::vector<absl::Duration>& schedule,
                             absl::Duration start, const Send& send,
                             LoadProgress& progress);

}  // namespace storm

#endif  // EXAMPLES_STORM_LOAD_H_
