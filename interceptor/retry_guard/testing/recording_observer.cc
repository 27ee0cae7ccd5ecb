#include "retry_guard/testing/recording_observer.h"

namespace retry_guard::testing {

std::ostream& operator<<(std::ostream& os, const RecordedDecision& decision) {
  Decision words;
  words.method = decision.method;
  words.attempt = decision.attempt;
  words.verdict = decision.verdict;
  words.reason = decision.reason;
  words.code = decision.code;
  words.message = decision.message;
  words.peer = decision.peer;
  words.delay = decision.delay;
  words.remaining = decision.remaining;
  words.elapsed = decision.elapsed;
  words.resend = decision.resend;
  return os << words;
}

std::vector<RecordedDecision> RecordingObserver::decisions() const {
  MutexLock lock(mu_);
  return decisions_;
}

std::vector<RecordedAttempt> RecordingObserver::attempts() const {
  MutexLock lock(mu_);
  return attempts_;
}

std::vector<RecordedBreakerChange> RecordingObserver::breaker_changes() const {
  MutexLock lock(mu_);
  return breaker_changes_;
}

std::vector<RecordedPolicyChange> RecordingObserver::policy_changes() const {
  MutexLock lock(mu_);
  return policy_changes_;
}

void RecordingObserver::Clear() {
  MutexLock lock(mu_);
  decisions_.clear();
  attempts_.clear();
  breaker_changes_.clear();
  policy_changes_.clear();
}

bool RecordingObserver::AwaitDecisions(int count,
                                       absl::Duration timeout) const {
  MutexLock lock(mu_);
  return decided_.WaitFor(mu_, timeout,
                          [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
                            return static_cast<int>(decisions_.size()) >= count;
                          });
}

void RecordingObserver::OnDecision(const Decision& decision) {
  MutexLock lock(mu_);
  decisions_.push_back(RecordedDecision{
      std::string(decision.method), decision.attempt, decision.verdict,
      decision.reason, decision.code, std::string(decision.message),
      std::string(decision.peer), decision.delay, decision.remaining,
      decision.elapsed, decision.resend});
  decided_.NotifyAll();
}

void RecordingObserver::OnAttempt(const AttemptReport& report) {
  MutexLock lock(mu_);
  attempts_.push_back(
      RecordedAttempt{std::string(report.method), report.attempt, report.code,
                      std::string(report.message), std::string(report.peer),
                      report.took, report.probe});
}

void RecordingObserver::OnBreakerStateChange(const BreakerStateChange& change) {
  MutexLock lock(mu_);
  breaker_changes_.push_back(RecordedBreakerChange{std::string(change.method),
                                                   change.from, change.to});
}

void RecordingObserver::OnPolicyChange(const PolicyChange& change) {
  MutexLock lock(mu_);
  policy_changes_.push_back(
      RecordedPolicyChange{change.kind, std::string(change.detail)});
}

}  // namespace retry_guard::testing
