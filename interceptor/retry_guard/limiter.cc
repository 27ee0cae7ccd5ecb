#include "retry_guard/limiter.h"

#include <optional>
#include <utility>

#include "retry_guard/call/real_clock.h"
#include "retry_guard/server.h"

namespace retry_guard {

ConcurrencyLimiter::Permit::Permit(Permit&& other) noexcept
    : limiter_(std::exchange(other.limiter_, nullptr)), since_(other.since_) {}

ConcurrencyLimiter::Permit& ConcurrencyLimiter::Permit::operator=(
    Permit&& other) noexcept {
  if (this != &other) {
    Release();
    limiter_ = std::exchange(other.limiter_, nullptr);
    since_ = other.since_;
  }
  return *this;
}

ConcurrencyLimiter::Permit::~Permit() { Release(); }

void ConcurrencyLimiter::Permit::Release() {
  if (limiter_ == nullptr) return;
  limiter_->limit_.GiveBack(limiter_->clock_->Now() - since_);
  limiter_ = nullptr;
}

ConcurrencyLimiter::ConcurrencyLimiter(Options options)
    : clock_(options.clock != nullptr ? std::move(options.clock)
                                      : internal::RealClock()),
      limit_(options.max_concurrent, options.max_delay) {}

ConcurrencyLimiter::Admission ConcurrencyLimiter::TryAcquire(
    grpc::ServerContextBase* inbound) {
  const absl::Time now = clock_->Now();
  Admission admission;
  if (const std::optional<absl::Duration> delay = limit_.Take(now)) {
    admission.status =
        RetryLater(inbound, *delay, "the server is busy; come again later");
  } else {
    admission.permit = Permit(this, now);
  }
  return admission;
}

}  // namespace retry_guard
