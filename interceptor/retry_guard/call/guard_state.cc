#include "retry_guard/call/guard_state.h"

#include <utility>

#include "retry_guard/call/real_clock.h"
#include "retry_guard/policy/absl_view.h"

namespace retry_guard::internal {

GuardState::GuardState()
    : budget_(BudgetPolicy(), std::nullopt),
      breaker_(BreakerPolicy()),
      clock_(RealClock()) {
  policies_.push_back(std::make_unique<const GuardPolicy>());
  policy_.store(policies_.back().get(), std::memory_order_release);
}

CircuitBreaker& GuardState::OwnBreaker(std::string_view method) {
  MutexLock lock(mu_);
  std::unique_ptr<CircuitBreaker>& breaker = own_breakers_[AbslView(method)];
  if (breaker == nullptr) {
    breaker = std::make_unique<CircuitBreaker>(policy().breaker);
  }
  return *breaker;
}

bool GuardState::Configure(const void* channel, const ServiceConfig& config,
                           absl::Time now) {
  const GuardPolicy& wanted = config.guard();
  MutexLock lock(mu_);
  if (owner_ != channel) {
    if (!config.sets_guard()) return true;
    if (owner_ != nullptr) return wanted == policy();
  }
  owner_ = config.sets_guard() ? channel : nullptr;
  if (wanted == policy()) return true;
  policy_.store(&Keep(wanted), std::memory_order_release);
  budget_.Reconfigure(wanted.budget, wanted.throttle, now);
  breaker_.Reconfigure(wanted.breaker, now);
  for (auto& [method, breaker] : own_breakers_) {
    breaker->Reconfigure(wanted.breaker, now);
  }
  return true;
}

const GuardPolicy& GuardState::Keep(const GuardPolicy& wanted) {
  for (const auto& known : policies_) {
    if (*known == wanted) return *known;
  }
  policies_.push_back(std::make_unique<const GuardPolicy>(wanted));
  return *policies_.back();
}

void GuardState::Forget(const void* channel) {
  MutexLock lock(mu_);
  if (owner_ == channel) owner_ = nullptr;
}

void GuardState::SetClock(std::shared_ptr<Clock> clock) {
  MutexLock lock(mu_);
  clock_ = std::move(clock);
}

absl::Time GuardState::Now() const {
  MutexLock lock(mu_);
  return clock_->Now();
}

GuardSnapshot GuardState::Snapshot(absl::Time now) const {
  GuardSnapshot snapshot;
  snapshot.budget_left = budget_.Left(now);
  snapshot.breaker_state = breaker_.state();
  snapshot.stale_breaker_results = breaker_.stale_results();
  snapshot.retries_enabled = retries_enabled();
  counters_.AddTo(snapshot);
  MutexLock lock(mu_);
  for (const auto& [method, breaker] : own_breakers_) {
    snapshot.own_breakers[method] = breaker->state();
    snapshot.stale_breaker_results += breaker->stale_results();
  }
  return snapshot;
}

}  // namespace retry_guard::internal
