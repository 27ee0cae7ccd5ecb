// An observer that keeps everything, for tests.
//
//   auto seen = std::make_shared<retry_guard::testing::RecordingObserver>();
//   options.observers = {seen};
//   ... make a call ...
//   EXPECT_THAT(seen->decisions(),
//               ElementsAre(Retries(), Retries(),
//                           Returns(Reason::kBudgetExhausted)));
//
// The matchers are in retry_guard/testing/matchers.h.

#ifndef RETRY_GUARD_TESTING_RECORDING_OBSERVER_H_
#define RETRY_GUARD_TESTING_RECORDING_OBSERVER_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "retry_guard/observer.h"
#include "retry_guard/policy/export.h"
#include "retry_guard/policy/mutex.h"

namespace retry_guard::testing {

// The same words as what an observer hears, but with strings of their own.
struct RecordedDecision {
  std::string method;
  int attempt = 0;
  Verdict verdict = Verdict::kReturn;
  Reason reason = Reason::kSucceeded;
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string message;
  std::string peer;
  absl::Duration delay;
  absl::Duration remaining;
  absl::Duration elapsed;
  bool resend = false;
};

struct RecordedAttempt {
  std::string method;
  int attempt = 0;
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string message;
  std::string peer;
  absl::Duration took;
  bool probe = false;
};

struct RecordedBreakerChange {
  std::string method;
  BreakerState from = BreakerState::kClosed;
  BreakerState to = BreakerState::kClosed;
};

struct RecordedPolicyChange {
  PolicyChange::Kind kind = PolicyChange::Kind::kApplied;
  std::string detail;
};

// Printed by GoogleTest when a matcher fails.
RETRY_GUARD_EXPORT std::ostream& operator<<(std::ostream& os,
                                            const RecordedDecision& decision);

// Thread-safe.
class RETRY_GUARD_EXPORT RecordingObserver : public Observer {
 public:
  // In the order in which they were heard, of all calls.
  std::vector<RecordedDecision> decisions() const;
  std::vector<RecordedAttempt> attempts() const;
  std::vector<RecordedBreakerChange> breaker_changes() const;
  std::vector<RecordedPolicyChange> policy_changes() const;

  // Forgets everything.
  void Clear();

  // Blocks until at least `count` decisions were recorded since the last Clear;
  // false if `timeout` (real time) is over first. Needed only to look on while
  // a call runs: its last decision is recorded before the caller has its
  // answer.
  bool AwaitDecisions(int count,
                      absl::Duration timeout = absl::Seconds(20)) const;

  void OnDecision(const Decision& decision) override;
  void OnAttempt(const AttemptReport& report) override;
  void OnBreakerStateChange(const BreakerStateChange& change) override;
  void OnPolicyChange(const PolicyChange& change) override;

 private:
  mutable Mutex mu_;
  mutable CondVar decided_;
  std::vector<RecordedDecision> decisions_ ABSL_GUARDED_BY(mu_);
  std::vector<RecordedAttempt> attempts_ ABSL_GUARDED_BY(mu_);
  std::vector<RecordedBreakerChange> breaker_changes_ ABSL_GUARDED_BY(mu_);
  std::vector<RecordedPolicyChange> policy_changes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace retry_guard::testing

#endif  // RETRY_GUARD_TESTING_RECORDING_OBSERVER_H_
