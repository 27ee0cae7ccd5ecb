#include "tests/stress/moments.h"

#include <utility>

#include "absl/time/clock.h"

namespace retry_guard::stress {

Moments::Moments() : thread_([this] { Run(); }) {}

Moments::~Moments() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    changed_.Signal();
  }
  thread_.join();
}

void Moments::CancelAt(absl::Time when, std::weak_ptr<Record> record) {
  absl::MutexLock lock(&mu_);
  moments_.push({when, std::move(record)});
  changed_.Signal();
}

void Moments::Run() {
  mu_.Lock();
  while (!stopping_) {
    if (moments_.empty()) {
      changed_.Wait(&mu_);
    } else if (moments_.top().when > absl::Now()) {
      changed_.WaitWithDeadline(&mu_, moments_.top().when);
    } else {
      const std::weak_ptr<Record> due = moments_.top().record;
      moments_.pop();
      mu_.Unlock();
      if (const std::shared_ptr<Record> record = due.lock()) record->Cancel();
      mu_.Lock();
    }
  }
  mu_.Unlock();
}

}  // namespace retry_guard::stress
