#include "retry_guard/policy/decider.h"

#include "retry_guard/policy/deadline.h"

namespace retry_guard {
namespace {

Ruling Stop(Reason reason) {
  Ruling ruling;
  ruling.reason = reason;
  return ruling;
}

// Line 7: whose business the retries of this call are. A re-send is ours even
// where the retries are another layer's: nobody else can tell that the stream
// was refused.
std::optional<Reason> NotOurs(const CallTerms& terms, bool retries_enabled,
                              bool resend) {
  if (!retries_enabled) return Reason::kDisabled;
  if (!resend && terms.another_layer_owns) return Reason::kAnotherLayerRetries;
  if (!resend && terms.policy->layer == Layer::kNever) {
    return Reason::kLayerNever;
  }
  if (terms.core_retries) return Reason::kCoreRetries;
  return std::nullopt;
}

// The re-send of a refused stream is no attempt of maxAttempts.
bool AttemptsExhausted(const CallTerms& terms, const CallProgress& progress) {
  const int counted = progress.attempts - (progress.resent ? 1 : 0);
  return counted >= terms.policy->max_attempts;
}

// The wait before an ordinary retry; moves `ladder` on.
absl::Duration DelayBeforeRetry(const MethodPolicy& policy,
                                const ServerHint& hint, BackoffLadder& ladder,
                                double unit) {
  const absl::Duration own = ladder.Next(policy.backoff, unit);
  if (!hint.present()) return own;
  ladder.Restart();
  return HintedWait(hint, policy.pushback, policy.backoff.initial, own, unit);
}

}  // namespace

Ruling DecideAfterAttempt(const CallTerms& terms, CallProgress& progress,
                          const AttemptEnd& end, RetryBudget& budget,
                          absl::Time now, double unit) {
  const MethodPolicy& policy = *terms.policy;
  const Outcome& outcome = *end.outcome;

  // 1 to 3
  if (outcome.code == absl::StatusCode::kOk) return Stop(Reason::kSucceeded);
  if (end.caller_cancelled) return Stop(Reason::kCallerCancelled);
  if (end.committed) return Stop(Reason::kCommitted);

  // 4 to 6
  if (!IsRetryable(outcome, policy, terms.key_travels)) {
    return Stop(Reason::kNotRetryable);
  }
  if (!IsSafe(outcome, policy, terms.repeat)) {
    return Stop(Reason::kNotIdempotent);
  }
  if (ServerForbidsRetry(outcome.hint, policy.pushback)) {
    return Stop(Reason::kServerSaidStop);
  }

  const bool resend =
      outcome.event == TransportEvent::kRefused && !progress.resent;

  // 7
  if (end.forbidden.has_value()) return Stop(*end.forbidden);
  if (auto reason = NotOurs(terms, end.retries_enabled, resend)) {
    return Stop(*reason);
  }
  // 8
  if (end.was_probe || !end.breaker_closed) return Stop(Reason::kBreakerOpen);
  // 9
  if (!resend && AttemptsExhausted(terms, progress)) {
    return Stop(Reason::kAttemptsExhausted);
  }
  // 10. On a copy of the ladder: a refusal must not climb it.
  BackoffLadder ladder = progress.ladder;
  const absl::Duration delay =
      resend ? absl::ZeroDuration()
             : DelayBeforeRetry(policy, outcome.hint, ladder, unit);
  const absl::Duration expected =
      policy.min_attempt_time.value_or(end.expected_attempt_time);
  if (!RetryFits(delay, expected, terms.deadline - now)) {
    return Stop(Reason::kDeadlineTooClose);
  }
  // 11
  const std::optional<RetryBudget::Token> token = budget.Take(now);
  if (!token.has_value()) return Stop(Reason::kBudgetExhausted);
  // 12
  progress.ladder = ladder;
  progress.resent = progress.resent || resend;
  Ruling ruling;
  ruling.reason = Reason::kRetry;
  ruling.delay = delay;
  ruling.token = token;
  ruling.resend = resend;
  return ruling;
}

std::optional<Reason> RefuseBeforeAttempt(const CallTerms& terms, bool is_retry,
                                          bool caller_cancelled,
                                          bool retries_enabled,
                                          absl::Time now) {
  if (caller_cancelled) return Reason::kCallerCancelled;
  if (now >= terms.deadline) return Reason::kDeadlineTooClose;
  if (is_retry && !retries_enabled) return Reason::kDisabled;
  return std::nullopt;
}

bool OwnsRetries(const CallTerms& terms, bool retries_enabled) {
  return terms.policy->max_attempts > 1 &&
         !NotOurs(terms, retries_enabled, /*resend=*/false).has_value();
}

CircuitBreaker::Result BreakerResult(const Outcome& outcome,
                                     const BreakerPolicy& policy,
                                     bool caller_cancelled,
                                     bool deadline_was_short) {
  using Result = CircuitBreaker::Result;
  if (caller_cancelled || outcome.code == absl::StatusCode::kCancelled) {
    return Result::kNeutral;
  }
  if (outcome.event == TransportEvent::kRateLimited) return Result::kNeutral;
  if (outcome.code == absl::StatusCode::kDeadlineExceeded &&
      deadline_was_short) {
    return Result::kNeutral;
  }
  // Refused by this side before the backend saw anything.
  if (outcome.code == absl::StatusCode::kResourceExhausted &&
      !outcome.reached_a_peer) {
    return Result::kNeutral;
  }
  if (policy.failure_codes.Contains(outcome.code)) return Result::kFailure;
  // Nothing that a server has said speaks for it.
  if (outcome.code != absl::StatusCode::kOk && !outcome.reached_a_peer) {
    return Result::kNeutral;
  }
  return Result::kSuccess;
}

}  // namespace retry_guard
