#include "retry_guard/call/real_clock.h"

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "retry_guard/call/core_time.h"

namespace retry_guard::internal {
namespace {

// Keeps itself alive until its callback has run: whoever started it may have
// dropped it, and an alarm that is destroyed is an alarm that is cancelled.
class AlarmTimer final : public Clock::Timer {
 public:
  explicit AlarmTimer(absl::AnyInvocable<void(bool fired)> callback)
      : callback_(std::move(callback)) {}

  void Start(gpr_timespec when, std::shared_ptr<AlarmTimer> self) {
    self_ = std::move(self);
    handed_over_.store(true, std::memory_order_release);
    alarm_.Set(when, [this](bool fired) {
      handed_over_.load(std::memory_order_acquire);
      const std::shared_ptr<AlarmTimer> self = std::move(self_);
      auto callback = std::move(callback_);
      callback(fired);
    });
  }

  void Cancel() override { alarm_.Cancel(); }

 private:
  absl::AnyInvocable<void(bool fired)> callback_;
  std::shared_ptr<AlarmTimer> self_;
  // gRPC does that as well, but where no thread sanitizer sees it.
  std::atomic<bool> handed_over_{false};
  grpc::Alarm alarm_;
};

class SteadyClock final : public Clock {
 public:
  absl::Time Now() const override {
    return start_ + absl::FromChrono(std::chrono::steady_clock::now() - zero_);
  }

  absl::Time WallNow() const override { return absl::Now(); }

  std::shared_ptr<Timer> StartTimer(
      absl::Time when, absl::AnyInvocable<void(bool fired)> callback) override {
    auto timer = std::make_shared<AlarmTimer>(std::move(callback));
    timer->Start(CoreTimeAfter(when - Now()), timer);
    return timer;
  }

 private:
  const absl::Time start_ = absl::Now();
  const std::chrono::steady_clock::time_point zero_ =
      std::chrono::steady_clock::now();
};

}  // namespace

std::shared_ptr<Clock> RealClock() {
  static auto* const clock =
      new std::shared_ptr<Clock>(std::make_shared<SteadyClock>());
  return *clock;
}

}  // namespace retry_guard::internal
