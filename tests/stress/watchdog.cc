#include "tests/stress/watchdog.h"

#include <cstdio>
#include <cstdlib>

#include "absl/time/clock.h"

namespace retry_guard::stress {

Watchdog::Watchdog(const Ledger* ledger, absl::Duration patience)
    : ledger_(ledger), patience_(patience), thread_([this] {
        while (!over_.WaitForNotificationWithTimeout(absl::Seconds(1))) Look();
      }) {}

Watchdog::~Watchdog() {
  over_.Notify();
  thread_.join();
}

void Watchdog::Look() {
  const auto open = ledger_->open();
  bool hangs = false;
  for (const auto& record : open) {
    hangs |= absl::Now() - record->started() > patience_;
  }
  if (!hangs) return;
  std::fprintf(stderr, "HANG: these calls are open\n");
  for (const auto& record : open) {
    std::fprintf(stderr, "  %s\n", record->ToString().c_str());
  }
  std::abort();
}

}  // namespace retry_guard::stress
