// Hooks for everything that retry_guard decides, refusals included.
//
//   class LogRefusals : public retry_guard::Observer {
//     void OnDecision(const retry_guard::Decision& d) override {
//       if (d.verdict == retry_guard::Verdict::kReturn &&
//           d.reason != retry_guard::Reason::kSucceeded) {
//         std::clog << d << '\n';
//       }
//     }
//   };

#ifndef RETRY_GUARD_OBSERVER_H_
#define RETRY_GUARD_OBSERVER_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "retry_guard/policy/circuit_breaker.h"
#include "retry_guard/policy/decision.h"

namespace retry_guard {

// One attempt that has ended. The views are valid during the call only.
struct AttemptReport {
  std::string_view method;
  int attempt = 0;  // from 1
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string_view message;  // of its status
  std::string_view peer;     // "" when it never had one
  absl::Duration took = absl::ZeroDuration();
  bool probe = false;  // it was a half-open breaker's probe
};

// The views are valid during the call only.
struct BreakerStateChange {
  std::string_view method;  // "" for the breaker that the whole guard shares
  BreakerState from = BreakerState::kClosed;
  BreakerState to = BreakerState::kClosed;
};

// A policy was put in force, or was refused. The view is valid during the call
// only.
struct PolicyChange {
  enum class Kind {
    kApplied,       // in force from now on
    kRefused,       // bad: the policy in force stays; `detail` has every error
    kGuardDiffers,  // in force for this channel, but the shared Guard keeps the
                    // budget and breaker parameters of the channel that it got
                    // them from first
  };
  Kind kind = Kind::kApplied;
  std::string_view detail;  // errors or warnings, a line each; may be empty
};

// Implementations must be thread-safe: several calls end at the same time. They
// are called with no lock held, on the thread that happens to be there, which
// may be one of gRPC's own: be quick, never block. They may call
// InterceptorFactory::UpdateServiceConfig, Guard::SetRetriesEnabled and
// Guard::Snapshot. An exception that escapes is swallowed.
class Observer {
 public:
  virtual ~Observer() = default;

  // After every attempt, and for every call that was refused before one. The
  // last decision of a call has Verdict::kReturn.
  virtual void OnDecision(const Decision& /*decision*/) {}

  // After every attempt, before the decision about it.
  virtual void OnAttempt(const AttemptReport& /*report*/) {}

  virtual void OnBreakerStateChange(const BreakerStateChange& /*change*/) {}

  virtual void OnPolicyChange(const PolicyChange& /*change*/) {}
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_OBSERVER_H_
