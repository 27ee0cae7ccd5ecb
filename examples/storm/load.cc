#include "load.h"

#include <cstddef>
#include <random>

#include "absl/synchronization/blocking_counter.h"
#include "steady_time.h"

namespace storm {

std::vector<absl::Duration> MakeSchedule(double per_second,
                                         absl::Duration length, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(per_second);
  std::vector<absl::Duration> schedule;
  for (absl::Duration time = absl::Seconds(gap(random)); time < length;
       time += absl::Seconds(gap(random))) {
    schedule.push_back(time);
  }
  return schedule;
}

std::vector<Request> RunLoad(const std::vector<absl::Duration>& schedule,
                             absl::Duration start, const Send& send,
                             LoadProgress& progress) {
  // Each answer writes the element of its own request, so no lock.
  std::vector<Request> requests(schedule.size());
  absl::BlockingCounter unanswered(static_cast<int>(schedule.size()));
  for (size_t i = 0; i < schedule.size(); ++i) {
    Request& request = requests[i];
    request.at = schedule[i];
    SleepUntil(start + schedule[i]);
    send([&request, &unanswered, &progress, start](const grpc::Status& status) {
      request.ok = status.ok();
      request.latency = SteadyNow() - start - request.at;
      ++(status.ok() ? progress.ok : progress.failed);
      unanswered.DecrementCount();
    });
  }
  unanswered.Wait();
  return requests;
}

}  // namespace storm
