// A run: servers, channels, workers that call, and what disturbs them.

#ifndef RETRY_GUARD_TESTS_STRESS_CHAOS_H_
#define RETRY_GUARD_TESTS_STRESS_CHAOS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "tests/stress/chaos_server.h"
#include "tests/stress/ledger.h"
#include "tests/stress/middle_server.h"
#include "tests/stress/moments.h"
#include "tests/stress/report.h"
#include "tests/stress/routes.h"

namespace retry_guard::stress {

struct ChaosOptions {
  uint64_t seed = 1;
  uint64_t calls = 20'000;
  absl::Duration time = absl::InfiniteDuration();  // stops early after that
  int threads = 24;
  Limits limits;
  absl::Duration patience = absl::Seconds(30);  // of the watchdog
};

class Chaos {
 public:
  explicit Chaos(const ChaosOptions& options);

  // True: everything was as it may be.
  bool Run();

 private:
  // Calls until `last` have been made, or time is up; then nothing runs.
  void MakeCalls(uint64_t last, absl::Time until);
  void MakeOneCall(uint64_t id);
  // Restarts, reloads, flips switches, until told to stop.
  void Disturb(const std::atomic<bool>* stop);
  // The server is well again: so is every channel, soon.
  void Recover();
  // Nothing of the calls that have ended is still under way.
  int64_t QuietHeap();
  Route& route(RouteId id) { return *routes_[static_cast<int>(id)]; }

  const ChaosOptions options_;
  Faults faults_;
  Ledger ledger_;
  Report report_;
  ChaosServer steady_, shaky_;
  std::array<std::unique_ptr<Route>, kRoutes> routes_;
  MiddleServer middle_;
  Moments moments_;
  std::atomic<uint64_t> next_{0};
};

}  // namespace retry_guard::stress

#endif  // RETRY_GUARD_TESTS_STRESS_CHAOS_H_
