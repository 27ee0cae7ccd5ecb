#include "retry_guard/call/guard_counters.h"

#include <algorithm>

namespace retry_guard::internal {
namespace {

void Add(std::atomic<int64_t>& counter, int64_t amount) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

int64_t Read(const std::atomic<int64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

}  // namespace

void GuardCounters::CountAttempt(bool first) {
  Stripe& stripe = Mine();
  Add(stripe.attempts, 1);
  if (first) Add(stripe.calls, 1);
}

void GuardCounters::CountSuccess(int attempts) {
  Stripe& stripe = Mine();
  const size_t last = stripe.successes.size() - 1;
  Add(stripe.successes[std::min(static_cast<size_t>(attempts), last)], 1);
}

void GuardCounters::CountRefusal(Reason reason) {
  Add(Mine().refusals[static_cast<size_t>(reason)], 1);
}

void GuardCounters::CountBackoff(absl::Duration waited) {
  Add(Mine().backoff_nanos, absl::ToInt64Nanoseconds(waited));
}

void GuardCounters::AddTo(GuardSnapshot& snapshot) const {
  int64_t backoff_nanos = 0;
  for (const Stripe& stripe : stripes_) {
    snapshot.calls += Read(stripe.calls);
    snapshot.attempts += Read(stripe.attempts);
    for (size_t i = 0; i < stripe.successes.size(); ++i) {
      snapshot.attempts_to_success[i] += Read(stripe.successes[i]);
    }
    for (size_t i = 0; i < stripe.refusals.size(); ++i) {
      const int64_t count = Read(stripe.refusals[i]);
      if (count != 0) snapshot.refusals[static_cast<Reason>(i)] += count;
    }
    backoff_nanos += Read(stripe.backoff_nanos);
  }
  snapshot.retries = snapshot.attempts - snapshot.calls;
  snapshot.backoff_time += absl::Nanoseconds(backoff_nanos);
}

}  // namespace retry_guard::internal
