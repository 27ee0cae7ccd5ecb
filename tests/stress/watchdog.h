// Ends the program when a call does not end.

#ifndef RETRY_GUARD_TESTS_STRESS_WATCHDOG_H_
#define RETRY_GUARD_TESTS_STRESS_WATCHDOG_H_

#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "tests/stress/ledger.h"

namespace retry_guard::stress {

// Aborts, and says which calls are open, once one of them has been for
// `patience`.
class Watchdog {
 public:
  Watchdog(const Ledger* ledger, absl::Duration patience);
  ~Watchdog();

 private:
  void Look();

  const Ledger* const ledger_;
  const absl::Duration patience_;
  absl::Notification over_;
  std::thread thread_;
};

}  // namespace retry_guard::stress

#endif  // RETRY_GUARD_TESTS_STRESS_WATCHDOG_H_
