// The one scenario that every mode goes through: what the backend can do, what
// its callers want, and what goes wrong when.

#ifndef EXAMPLES_STORM_SCENARIO_H_
#define EXAMPLES_STORM_SCENARIO_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/time/time.h"

namespace storm {

// The backend: 4 workers x 20 ms = 200 requests a second. Its queue holds two
// seconds of work, which is longer than any caller waits. That is the usual
// mistake in a server's set-up, and what makes a storm feed itself: the workers
// are busy, all the time, with answers that nobody waits for any more.
inline constexpr int kWorkers = 4;
inline constexpr absl::Duration kServiceTime = absl::Milliseconds(20);
inline constexpr int kQueueLimit = 400;

// The callers: 70 % of that capacity. Four attempts of one attempt timeout each
// and the naive loop's three pauses fit into the deadline.
inline constexpr double kRequestsPerSecond = 140;
inline constexpr int kMaxAttempts = 4;
inline constexpr absl::Duration kAttemptTimeout = absl::Milliseconds(200);
inline constexpr absl::Duration kDeadline = absl::Milliseconds(1200);

// The faults.
inline constexpr int kBlipOneIn = 20;  // 5 % of the answers
inline constexpr int kSlowFactor = 10;

enum class Outage {
  kSlow,   // service time x kSlowFactor
  kError,  // every request is refused at once
  kKill,   // the process is killed, and started again when the trouble ends
};

std::optional<Outage> ParseOutage(std::string_view name);
std::string_view OutageName(Outage outage);

// healthy | blip | trouble | recover, one after the other from time zero.
struct Phases {
  absl::Duration healthy = absl::Seconds(8);
  absl::Duration blip = absl::Seconds(5);
  absl::Duration trouble = absl::Seconds(4);
  absl::Duration recover = absl::Seconds(12);

  absl::Duration BlipStart() const { return healthy; }
  absl::Duration TroubleStart() const { return healthy + blip; }
  absl::Duration TroubleEnd() const { return TroubleStart() + trouble; }
  absl::Duration End() const { return TroubleEnd() + recover; }

  std::string_view NameAt(absl::Duration time) const;
};

// Long enough to see that the program works, too short for its numbers.
Phases QuickPhases();

struct Scenario {
  Outage outage = Outage::kSlow;
  Phases phases;
  uint64_t seed = 1;
};

}  // namespace storm

#endif  // EXAMPLES_STORM_SCENARIO_H_
