// A circuit breaker: stops sending to a backend that fails, and finds out with
// single probes when it works again.
//
//   closed ----- failure rate or consecutive failures ----> open
//   open ------- openFor has passed ----------------------> half-open
//   half-open -- `probes` successes ----------------------> closed
//   half-open -- one failure -----------------------------> open, twice as long
//
//   auto admission = breaker.AdmitFirst(now);
//   if (!admission.permit) return Refuse(admission.retry_after);
//   ... run the attempt ...
//   admission.permit.Settle(CircuitBreaker::Result::kFailure, now, unit);
//
// Refused are only first attempts and retries that were not sent yet; a call in
// flight is never touched.

#ifndef RETRY_GUARD_POLICY_CIRCUIT_BREAKER_H_
#define RETRY_GUARD_POLICY_CIRCUIT_BREAKER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/time/time.h"
#include "retry_guard/policy/export.h"
#include "retry_guard/policy/method_policy.h"

namespace retry_guard {

enum class BreakerState { kClosed, kOpen, kHalfOpen };

RETRY_GUARD_EXPORT std::string_view BreakerStateName(
    BreakerState state);  // "closed", "open", ...

// Thread-safe. Takes no lock while closed. Must outlive its permits. A breaker
// whose policy is off admits everything and counts nothing.
//
// The rate is judged when a failure comes in, over slots of at most a sixteenth
// of the window: an attempt may drop out of it up to two slots early.
class RETRY_GUARD_EXPORT CircuitBreaker {
 public:
  enum class Result {
    kSuccess,
    kFailure,
    kNeutral,  // says nothing of the backend; frees a probe's slot at once
  };

  struct Transition {
    BreakerState from;
    BreakerState to;
  };

  // The right to send one attempt. Move-only; settled exactly once, and neutral
  // if it is dropped unsettled. Empty (false) when refused, moved from, or
  // settled. Not thread-safe: belongs to its attempt.
  class Permit {
   public:
    Permit() = default;
    Permit(Permit&& other) noexcept;
    Permit& operator=(Permit&& other) noexcept;
    ~Permit();

    explicit operator bool() const { return breaker_ != nullptr; }
    bool is_probe() const { return probe_; }

    // Tells how the attempt ended. A result of an older generation (the breaker
    // has changed state since) changes nothing. Returns the change of state
    // that it caused, for the caller to report with no lock held.
    // `unit` in [0, 1) jitters how long the breaker stays open: after the cap,
    // so up to a fifth longer than maxOpenFor.
    std::optional<Transition> Settle(Result result, absl::Time now,
                                     double unit);

   private:
    friend class CircuitBreaker;
    Permit(CircuitBreaker* breaker, uint64_t generation, bool probe);

    CircuitBreaker* breaker_ = nullptr;
    uint64_t generation_ = 0;
    uint64_t probe_id_ = 0;
    bool probe_ = false;
  };

  struct Admission {
    Permit permit;                         // empty: refused
    absl::Duration retry_after;            // refused: until the next probe, > 0
    std::optional<Transition> transition;  // open -> half-open
  };

  explicit CircuitBreaker(const BreakerPolicy& policy);
  ~CircuitBreaker();

  CircuitBreaker(const CircuitBreaker&) = delete;
  CircuitBreaker& operator=(const CircuitBreaker&) = delete;

  // For the first attempt of a call: always while closed; a probe in half-open
  // while a slot is free; never while open. A probe that has not ended within
  // openFor loses its slot, so that one that hangs cannot block recovery: a
  // failure of it is stale then. A success still counts while the breaker is
  // half-open, or a backend that is merely slow could never close it.
  Admission AdmitFirst(absl::Time now);

  // For a retry: only while closed.
  Admission AdmitRetry(absl::Time now);

  // The state as of `now` (open turns to half-open by time alone, on the next
  // AdmitFirst; until then it reads kOpen).
  BreakerState state() const;

  // When the next probe is due, seen from `now`; zero if one would be admitted.
  absl::Duration UntilNextProbe(absl::Time now) const;

  // Successes and failures that came too late to count.
  int64_t stale_results() const;

  // Other parameters from now on. State, open-until and counters stay; where
  // the window changes its length, the counts of the old one count as of `now`.
  // Switching the breaker off or on starts anew, closed.
  void Reconfigure(const BreakerPolicy& policy, absl::Time now);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_CIRCUIT_BREAKER_H_
