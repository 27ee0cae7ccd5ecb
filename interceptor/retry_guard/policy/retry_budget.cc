#include "retry_guard/policy/retry_budget.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "retry_guard/policy/grant_window.h"
#include "retry_guard/policy/sliding_counter.h"
#include "retry_guard/policy/striped.h"
#include "retry_guard/policy/throttle.h"
#include "retry_guard/policy/time_slots.h"

namespace retry_guard {
namespace {

// Twice the promised 64 per window: a slot is a power of two, and whoever is
// counted for too long is so for up to two of them.
constexpr int64_t kSlotsPerWindow = 128;

// Calls and retries of one window, in the same slots.
struct RatioWindow {
  RatioWindow(absl::Duration window, const GrantWindow::Legacy* legacy)
      : slots(window, kSlotsPerWindow),
        calls(slots),
        retries(legacy == nullptr ? GrantWindow(slots)
                                  : GrantWindow(slots, *legacy)) {}

  const TimeSlots slots;
  SlidingCounter calls;
  GrantWindow retries;
};

// What is in force; replaced as a whole. Windows live on from one plan to the
// next.
struct Plan {
  BudgetPolicy policy;
  std::shared_ptr<RatioWindow> budget;
  std::shared_ptr<GrantWindow> cap;  // null: no flat cap
};

bool operator==(const Plan& a, const Plan& b) {
  return a.policy == b.policy && a.budget == b.budget && a.cap == b.cap;
}

double Allowed(const BudgetPolicy& policy, uint64_t calls) {
  return static_cast<double>(policy.min_retries) +
         policy.ratio * static_cast<double>(calls);
}

bool HasToken(const Plan& plan, uint64_t slot, uint64_t used) {
  // Enough to know most of the time, and saves reading other threads' lines.
  if (static_cast<int64_t>(used) < plan.policy.min_retries) return true;
  return static_cast<double>(used + 1) <=
         Allowed(plan.policy, plan.budget->calls.Sum(slot));
}

std::optional<absl::Time> TakeFrom(const Plan& plan, absl::Time now) {
  const uint64_t cap = plan.cap == nullptr ? 0 : *plan.policy.max_retries;
  // While the cap is used up, taking and giving back for every question would
  // be a burden for nothing.
  if (plan.cap != nullptr && plan.cap->IsFull(now, cap)) return std::nullopt;

  const std::optional<absl::Time> taken =
      plan.budget->retries.TryGrant(now, [&plan](uint64_t slot, uint64_t used) {
        return HasToken(plan, slot, used);
      });
  if (!taken.has_value() || plan.cap == nullptr) return taken;

  const std::optional<absl::Time> capped = plan.cap->TryGrant(
      now, [cap](uint64_t, uint64_t used) { return used < cap; });
  if (!capped.has_value()) {
    plan.budget->retries.GiveBack(*taken);
    return std::nullopt;
  }
  // The earlier one: a token that is given back must not outlive its taking.
  return std::min(*taken, *capped);
}

}  // namespace

class RetryBudget::Impl {
 public:
  Impl(const BudgetPolicy& policy,
       const std::optional<ThrottlePolicy>& throttle_policy)
      : throttle(throttle_policy) {
    auto first = std::make_unique<Plan>();
    first->policy = policy;
    first->budget = std::make_shared<RatioWindow>(policy.window, nullptr);
    if (policy.max_retries.has_value()) {
      first->cap = std::make_shared<GrantWindow>(
          TimeSlots(policy.max_retries_window, kSlotsPerWindow));
    }
    Publish(std::move(first));
  }

  const Plan& plan() const { return *plan_.load(std::memory_order_acquire); }

  void Publish(std::unique_ptr<Plan> next) {
    for (const std::unique_ptr<Plan>& old : plans_) {
      if (*old == *next) {
        plan_.store(old.get(), std::memory_order_release);
        return;
      }
    }
    plan_.store(next.get(), std::memory_order_release);
    plans_.push_back(std::move(next));
  }

  Throttle throttle;

 private:
  alignas(kCacheLine) std::atomic<const Plan*> plan_{nullptr};
  // All plans ever in force, since a thread may still read an old one. A change
  // of policy is rare and a plan is small.
  std::vector<std::unique_ptr<Plan>> plans_;
};

RetryBudget::RetryBudget(const BudgetPolicy& policy,
                         const std::optional<ThrottlePolicy>& throttle)
    : impl_(std::make_unique<Impl>(policy, throttle)) {}

RetryBudget::~RetryBudget() = default;

void RetryBudget::CountCall(absl::Time now) {
  impl_->plan().budget->calls.Add(now);
}

void RetryBudget::CountSuccess() { impl_->throttle.RecordSuccess(); }

void RetryBudget::CountFailure() { impl_->throttle.RecordFailure(); }

std::optional<RetryBudget::Token> RetryBudget::Take(absl::Time now) {
  if (!impl_->throttle.AllowsRetry()) return std::nullopt;
  while (true) {
    const Plan& plan = impl_->plan();
    if (auto taken = TakeFrom(plan, now)) return Token{*taken};
    // A plan that was replaced meanwhile grants nothing: ask the next one.
    if (&plan == &impl_->plan()) return std::nullopt;
  }
}

void RetryBudget::GiveBack(const Token& token) {
  const Plan& plan = impl_->plan();
  plan.budget->retries.GiveBack(token.taken_at);
  if (plan.cap != nullptr) plan.cap->GiveBack(token.taken_at);
}

int64_t RetryBudget::Left(absl::Time now) const {
  if (!impl_->throttle.AllowsRetry()) return 0;
  const Plan& plan = impl_->plan();
  const GrantWindow::State state = plan.budget->retries.At(now);
  const double allowed =
      std::min(Allowed(plan.policy, plan.budget->calls.SumAnew(state.slot)),
               static_cast<double>(slot_word::kMaxValue));
  int64_t left =
      static_cast<int64_t>(allowed) - static_cast<int64_t>(state.used);
  if (plan.cap != nullptr) {
    left = std::min(left, *plan.policy.max_retries -
                              static_cast<int64_t>(plan.cap->At(now).used));
  }
  return std::max<int64_t>(left, 0);
}

std::optional<int64_t> RetryBudget::ThrottleMilliTokens() const {
  return impl_->throttle.milli_tokens();
}

void RetryBudget::Reconfigure(const BudgetPolicy& policy,
                              const std::optional<ThrottlePolicy>& throttle,
                              absl::Time now) {
  impl_->throttle.Reconfigure(throttle);

  const Plan& old = impl_->plan();
  if (policy == old.policy) return;
  auto next = std::make_unique<Plan>(old);
  next->policy = policy;

  // An old window is frozen before its grants are carried over: a grant that
  // nobody counts would be a token out of nothing.
  if (policy.window != old.policy.window) {
    const GrantWindow::Legacy legacy = old.budget->retries.Freeze(now);
    next->budget = std::make_shared<RatioWindow>(policy.window, &legacy);
  }
  if (!policy.max_retries.has_value()) {
    next->cap = nullptr;
  } else if (old.cap == nullptr) {
    // Nobody counted for a cap until now; the budget's window is what is known.
    GrantWindow::Legacy legacy;
    legacy.at = now;
    legacy.used = next->budget->retries.At(now).used;
    next->cap = std::make_shared<GrantWindow>(
        TimeSlots(policy.max_retries_window, kSlotsPerWindow), legacy);
  } else if (policy.max_retries_window != old.policy.max_retries_window) {
    next->cap = std::make_shared<GrantWindow>(
        TimeSlots(policy.max_retries_window, kSlotsPerWindow),
        old.cap->Freeze(now));
  }
  impl_->Publish(std::move(next));
}

}  // namespace retry_guard
