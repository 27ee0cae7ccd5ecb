#include "retry_guard/call/interruption.h"

#include <utility>

namespace retry_guard::internal {

void Interruption::BeginAttempt(const std::shared_ptr<Attempt>& attempt) {
  std::shared_ptr<Attempt> before;  // dies after the lock is released
  {
    MutexLock lock(mu_);
    ++number_;
    timer_ = nullptr;
    before = std::exchange(attempt_, nullptr);
    if (!cancelled_) {
      attempt_ = attempt;
      return;
    }
  }
  attempt->Cancel();
}

uint64_t Interruption::BeginWait() {
  std::shared_ptr<Attempt> before;
  MutexLock lock(mu_);
  before = std::exchange(attempt_, nullptr);
  return ++number_;
}

void Interruption::SetTimer(uint64_t wait,
                            const std::shared_ptr<Clock::Timer>& timer) {
  {
    MutexLock lock(mu_);
    if (wait != number_) return;
    timer_ = timer;
    if (!cancelled_ && !wait_ended_) return;
  }
  timer->Cancel();
}

void Interruption::Cancel() {
  std::shared_ptr<Attempt> attempt;
  std::shared_ptr<Clock::Timer> timer;
  {
    MutexLock lock(mu_);
    cancelled_ = true;
    attempt = attempt_;
    timer = timer_;
  }
  if (attempt != nullptr) attempt->Cancel();
  if (timer != nullptr) timer->Cancel();
}

void Interruption::EndWait() {
  std::shared_ptr<Clock::Timer> timer;
  {
    MutexLock lock(mu_);
    wait_ended_ = true;
    timer = timer_;
  }
  if (timer != nullptr) timer->Cancel();
}

}  // namespace retry_guard::internal
