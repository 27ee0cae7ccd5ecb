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
#include "retry_guard/decision.h"
#include "retry_guard/policy/circuit_breaker.h"
#include "retry_guard/policy/export.h"

namespace retry_guard {

// One attempt that has ended. The views are valid during the call only.
struct AttemptReport {
  std::string_view method;  // "/package.Service/Method"
  int attempt = 0;          // from 1
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string_view message;  // of its status
  // A transport address, as gRPC writes it; what the channel was made for
  // instead if the attempt never had a connection.
  std::string_view peer;
  absl::Duration took = absl::ZeroDuration();  // to its end, a stream's too
  bool probe = false;  // it was a half-open breaker's probe
};

// The views are valid during the call only.
struct BreakerStateChange {
  // "/package.Service/Method"; "" for the breaker that the whole guard shares.
  std::string_view method;
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
// Guard::Snapshot. They must not destroy the ClientContext of a call that has
// not ended, nor wait for somebody who does. An exception that escapes is
// swallowed.
class RETRY_GUARD_EXPORT Observer {
 public:
  virtual ~Observer() = default;

  // After every attempt, for every call that was refused before one, and once
  // more for a retry that was decided but is not sent after all. The last
  // decision of a call has Verdict::kReturn.
  virtual void OnDecision(const Decision& /*decision*/) {}

  // After every attempt, before the decision about it.
  virtual void OnAttempt(const AttemptReport& /*report*/) {}

  // Changes that follow each other closely may be told on different threads, in
  // either order.
  virtual void OnBreakerStateChange(const BreakerStateChange& /*change*/) {}

  // While a factory is made, in UpdateServiceConfig, and in the call that first
  // sees that the channel's own config has changed.
  virtual void OnPolicyChange(const PolicyChange& /*change*/) {}
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_OBSERVER_H_
