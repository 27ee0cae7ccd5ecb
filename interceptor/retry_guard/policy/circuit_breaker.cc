#include "retry_guard/policy/circuit_breaker.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "retry_guard/policy/mutex.h"
#include "retry_guard/policy/sliding_counter.h"
#include "retry_guard/policy/striped.h"
#include "retry_guard/policy/time_slots.h"

namespace retry_guard {
namespace {

constexpr int64_t kSlotsPerWindow = 16;

// What a refusal says at least: "now" would be asked again at once.
constexpr absl::Duration kShortestWait = absl::Milliseconds(1);

// A state and its generation in one word, which the closed path reads. A
// breaker that is off is closed for ever, in a generation that nobody counts.
constexpr uint64_t kUncounted = 0;

constexpr uint64_t Pack(BreakerState state, uint64_t generation) {
  return generation << 2 | static_cast<uint64_t>(state);
}
constexpr BreakerState StateOf(uint64_t word) {
  return static_cast<BreakerState>(word & 3);
}
constexpr uint64_t GenerationOf(uint64_t word) { return word >> 2; }

// How attempts ended while closed.
struct Counts {
  explicit Counts(absl::Duration window)
      : slots(window, kSlotsPerWindow), successes(slots), failures(slots) {}

  void Clear() {
    successes.Clear();
    failures.Clear();
  }

  const TimeSlots slots;
  SlidingCounter successes;
  SlidingCounter failures;
};

// What is in force; replaced as a whole.
struct Plan {
  BreakerPolicy policy;
  std::shared_ptr<Counts> counts;
};

bool RateReached(const BreakerPolicy& policy, Counts& counts, absl::Time now) {
  if (!(policy.failure_rate > 0)) return false;
  const uint64_t slot = counts.slots.At(now);
  const auto failures = static_cast<double>(counts.failures.Sum(slot));
  const double all = failures + static_cast<double>(counts.successes.Sum(slot));
  // The little more is for rates that no double holds: 3 of 30 are 0.1.
  return all >= static_cast<double>(policy.min_requests) &&
         failures * (1 + 1e-12) >= policy.failure_rate * all;
}

}  // namespace

std::string_view BreakerStateName(BreakerState state) {
  switch (state) {
    case BreakerState::kClosed:
      return "closed";
    case BreakerState::kOpen:
      return "open";
    case BreakerState::kHalfOpen:
      return "half-open";
  }
  return "invalid";
}

class CircuitBreaker::Impl {
 public:
  explicit Impl(const BreakerPolicy& policy) {
    MutexLock lock(mutex_);
    auto first = std::make_unique<Plan>();
    first->policy = policy;
    first->counts = std::make_shared<Counts>(policy.window);
    Publish(std::move(first));
    Enter(BreakerState::kClosed);
  }

  uint64_t word() const { return word_.load(std::memory_order_acquire); }

  // The slow half of AdmitFirst. Returns the generation of the permit and the
  // id of the probe (0: closed after all).
  struct Slot {
    bool admitted = false;
    uint64_t generation = 0;
    uint64_t probe_id = 0;
    absl::Duration retry_after;
    std::optional<Transition> transition;
  };
  Slot Probe(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  std::optional<Transition> SettleClosed(uint64_t generation, Result result,
                                         absl::Time now, double unit)
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<Transition> SettleProbe(uint64_t generation, uint64_t probe_id,
                                        Result result, absl::Time now,
                                        double unit)
      ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Duration UntilNextProbe(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  void Reconfigure(const BreakerPolicy& policy, absl::Time now)
      ABSL_LOCKS_EXCLUDED(mutex_);

  int64_t stale_results() const {
    return stale_.load(std::memory_order_relaxed);
  }

 private:
  struct Outstanding {
    uint64_t id;
    absl::Time expires;
  };

  const Plan& plan() const { return *plan_.load(std::memory_order_acquire); }

  void Publish(std::unique_ptr<Plan> next)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Every change of state goes through here: a new generation, no probes.
  void Enter(BreakerState state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Transition Open(absl::Time now, double unit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropHangingProbes(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ForgetProbe(uint64_t probe_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration UntilSlotIsFree(absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountStale(Result result);

  // Read by every call.
  alignas(kCacheLine) std::atomic<uint64_t> word_{0};
  std::atomic<const Plan*> plan_{nullptr};

  // Written by failures; by a success only after one.
  alignas(kCacheLine) std::atomic<int64_t> consecutive_failures_{0};
  std::atomic<int64_t> stale_{0};

  // For changes of state, and for probes.
  alignas(kCacheLine) Mutex mutex_;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = kUncounted;
  uint64_t last_probe_id_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time open_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Duration next_open_for_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  int probe_successes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Outstanding> probes_ ABSL_GUARDED_BY(mutex_);
  // All plans ever in force: a thread may still read an old one.
  std::vector<std::unique_ptr<Plan>> plans_ ABSL_GUARDED_BY(mutex_);
};

void CircuitBreaker::Impl::Publish(std::unique_ptr<Plan> next) {
  for (const std::unique_ptr<Plan>& old : plans_) {
    if (old->policy == next->policy && old->counts == next->counts) {
      plan_.store(old.get(), std::memory_order_release);
      return;
    }
  }
  plan_.store(next.get(), std::memory_order_release);
  plans_.push_back(std::move(next));
}

void CircuitBreaker::Impl::Enter(BreakerState state) {
  probes_.clear();
  probe_successes_ = 0;
  if (state == BreakerState::kClosed) {
    plan().counts->Clear();
    consecutive_failures_.store(0, std::memory_order_relaxed);
    next_open_for_ = absl::ZeroDuration();
    if (!plan().policy.enabled()) {
      word_.store(Pack(state, kUncounted), std::memory_order_release);
      return;
    }
  }
  word_.store(Pack(state, ++generation_), std::memory_order_release);
}

CircuitBreaker::Transition CircuitBreaker::Impl::Open(absl::Time now,
                                                      double unit) {
  const BreakerPolicy& policy = plan().policy;
  const absl::Duration open_for = std::max(next_open_for_, policy.open_for);
  next_open_for_ =
      std::min(open_for * 2, std::max(policy.max_open_for, policy.open_for));
  open_until_ = now + open_for * (0.8 + 0.4 * unit);
  const BreakerState from = StateOf(word());
  Enter(BreakerState::kOpen);
  return {from, BreakerState::kOpen};
}

void CircuitBreaker::Impl::DropHangingProbes(absl::Time now) {
  probes_.erase(std::remove_if(probes_.begin(), probes_.end(),
                               [now](const Outstanding& probe) {
                                 return probe.expires <= now;
                               }),
                probes_.end());
}

bool CircuitBreaker::Impl::ForgetProbe(uint64_t probe_id) {
  for (auto it = probes_.begin(); it != probes_.end(); ++it) {
    if (it->id == probe_id) {
      probes_.erase(it);
      return true;
    }
  }
  return false;
}

absl::Duration CircuitBreaker::Impl::UntilSlotIsFree(absl::Time now) {
  if (probes_.size() < static_cast<size_t>(plan().policy.probes)) {
    return absl::ZeroDuration();
  }
  absl::Time first = absl::InfiniteFuture();
  for (const Outstanding& probe : probes_) {
    first = std::min(first, probe.expires);
  }
  return std::max(first - now, absl::ZeroDuration());
}

CircuitBreaker::Impl::Slot CircuitBreaker::Impl::Probe(absl::Time now) {
  MutexLock lock(mutex_);
  Slot slot;
  if (StateOf(word()) == BreakerState::kOpen) {
    if (now < open_until_) {
      slot.retry_after = std::max(open_until_ - now, kShortestWait);
      return slot;
    }
    Enter(BreakerState::kHalfOpen);
    slot.transition = {BreakerState::kOpen, BreakerState::kHalfOpen};
  }
  if (StateOf(word()) == BreakerState::kHalfOpen) {
    DropHangingProbes(now);
    const absl::Duration wait = UntilSlotIsFree(now);
    if (wait > absl::ZeroDuration()) {
      slot.retry_after = std::max(wait, kShortestWait);
      return slot;
    }
    slot.probe_id = ++last_probe_id_;
    probes_.push_back({slot.probe_id, now + plan().policy.open_for});
  }
  slot.admitted = true;
  slot.generation = GenerationOf(word());
  return slot;
}

void CircuitBreaker::Impl::CountStale(Result result) {
  if (result == Result::kNeutral) return;
  stale_.fetch_add(1, std::memory_order_relaxed);
}

std::optional<CircuitBreaker::Transition> CircuitBreaker::Impl::SettleClosed(
    uint64_t generation, Result result, absl::Time now, double unit) {
  const uint64_t word_now = word();
  if (GenerationOf(word_now) != generation) {
    // In no generation it was switched off meanwhile.
    if (GenerationOf(word_now) != kUncounted) CountStale(result);
    return std::nullopt;
  }
  const Plan& plan = this->plan();
  switch (result) {
    case Result::kNeutral:
      return std::nullopt;
    case Result::kSuccess:
      plan.counts->successes.Add(now);
      if (consecutive_failures_.load(std::memory_order_relaxed) != 0) {
        consecutive_failures_.store(0, std::memory_order_relaxed);
      }
      return std::nullopt;
    case Result::kFailure:
      break;
  }
  plan.counts->failures.Add(now);
  bool trip = RateReached(plan.policy, *plan.counts, now);
  if (plan.policy.consecutive_failures > 0) {
    const int64_t in_a_row =
        consecutive_failures_.fetch_add(1, std::memory_order_relaxed) + 1;
    trip = trip || in_a_row >= plan.policy.consecutive_failures;
  }
  if (!trip) return std::nullopt;

  MutexLock lock(mutex_);
  // Another failure may have opened it first.
  if (GenerationOf(word()) != generation) return std::nullopt;
  return Open(now, unit);
}

std::optional<CircuitBreaker::Transition> CircuitBreaker::Impl::SettleProbe(
    uint64_t generation, uint64_t probe_id, Result result, absl::Time now,
    double unit) {
  MutexLock lock(mutex_);
  if (GenerationOf(word()) != generation) {
    CountStale(result);
    return std::nullopt;
  }
  DropHangingProbes(now);
  const bool in_time = ForgetProbe(probe_id);
  // A late success is as good as any: where calls take longer than openFor,
  // nothing else could ever close the breaker.
  if (!in_time && result != Result::kSuccess) {
    CountStale(result);
    return std::nullopt;
  }
  switch (result) {
    case Result::kNeutral:
      return std::nullopt;
    case Result::kFailure:
      return Open(now, unit);
    case Result::kSuccess:
      break;
  }
  if (++probe_successes_ < plan().policy.probes) return std::nullopt;
  Enter(BreakerState::kClosed);
  return Transition{BreakerState::kHalfOpen, BreakerState::kClosed};
}

absl::Duration CircuitBreaker::Impl::UntilNextProbe(absl::Time now) {
  if (StateOf(word()) == BreakerState::kClosed) return absl::ZeroDuration();
  MutexLock lock(mutex_);
  switch (StateOf(word())) {
    case BreakerState::kClosed:
      break;
    case BreakerState::kOpen:
      return std::max(open_until_ - now, absl::ZeroDuration());
    case BreakerState::kHalfOpen:
      return UntilSlotIsFree(now);
  }
  return absl::ZeroDuration();
}

void CircuitBreaker::Impl::Reconfigure(const BreakerPolicy& policy,
                                       absl::Time now) {
  MutexLock lock(mutex_);
  const Plan& old = plan();
  if (policy == old.policy) return;
  const bool was_enabled = old.policy.enabled();
  auto next = std::make_unique<Plan>(old);
  next->policy = policy;
  if (policy.window != old.policy.window) {
    // Other slots: what was counted goes over in one piece.
    next->counts = std::make_shared<Counts>(policy.window);
    const uint64_t slot = old.counts->slots.At(now);
    next->counts->successes.Add(now, old.counts->successes.SumAnew(slot));
    next->counts->failures.Add(now, old.counts->failures.SumAnew(slot));
  }
  Publish(std::move(next));
  if (was_enabled != policy.enabled()) Enter(BreakerState::kClosed);
}

CircuitBreaker::CircuitBreaker(const BreakerPolicy& policy)
    : impl_(std::make_unique<Impl>(policy)) {}

CircuitBreaker::~CircuitBreaker() = default;

CircuitBreaker::Admission CircuitBreaker::AdmitFirst(absl::Time now) {
  const uint64_t word = impl_->word();
  if (StateOf(word) == BreakerState::kClosed) {
    return {Permit(this, GenerationOf(word), false), absl::ZeroDuration(),
            std::nullopt};
  }
  const Impl::Slot slot = impl_->Probe(now);
  Admission admission{Permit(), slot.retry_after, slot.transition};
  if (slot.admitted) {
    admission.permit = Permit(this, slot.generation, slot.probe_id != 0);
    admission.permit.probe_id_ = slot.probe_id;
  }
  return admission;
}

CircuitBreaker::Admission CircuitBreaker::AdmitRetry(absl::Time now) {
  const uint64_t word = impl_->word();
  if (StateOf(word) == BreakerState::kClosed) {
    return {Permit(this, GenerationOf(word), false), absl::ZeroDuration(),
            std::nullopt};
  }
  return {Permit(), std::max(impl_->UntilNextProbe(now), kShortestWait),
          std::nullopt};
}

BreakerState CircuitBreaker::state() const { return StateOf(impl_->word()); }

absl::Duration CircuitBreaker::UntilNextProbe(absl::Time now) const {
  return impl_->UntilNextProbe(now);
}

int64_t CircuitBreaker::stale_results() const { return impl_->stale_results(); }

void CircuitBreaker::Reconfigure(const BreakerPolicy& policy, absl::Time now) {
  impl_->Reconfigure(policy, now);
}

CircuitBreaker::Permit::Permit(CircuitBreaker* breaker, uint64_t generation,
                               bool probe)
    : breaker_(breaker), generation_(generation), probe_(probe) {}

CircuitBreaker::Permit::Permit(Permit&& other) noexcept
    : breaker_(std::exchange(other.breaker_, nullptr)),
      generation_(other.generation_),
      probe_id_(other.probe_id_),
      probe_(std::exchange(other.probe_, false)) {}

CircuitBreaker::Permit& CircuitBreaker::Permit::operator=(
    Permit&& other) noexcept {
  if (this != &other) {
    Settle(Result::kNeutral, absl::InfinitePast(), 0);
    breaker_ = std::exchange(other.breaker_, nullptr);
    generation_ = other.generation_;
    probe_id_ = other.probe_id_;
    probe_ = std::exchange(other.probe_, false);
  }
  return *this;
}

CircuitBreaker::Permit::~Permit() {
  Settle(Result::kNeutral, absl::InfinitePast(), 0);
}

std::optional<CircuitBreaker::Transition> CircuitBreaker::Permit::Settle(
    Result result, absl::Time now, double unit) {
  if (breaker_ == nullptr) return std::nullopt;
  Impl& impl = *std::exchange(breaker_, nullptr)->impl_;
  if (probe_) {
    return impl.SettleProbe(generation_, probe_id_, result, now, unit);
  }
  if (generation_ == kUncounted) return std::nullopt;
  return impl.SettleClosed(generation_, result, now, unit);
}

}  // namespace retry_guard
