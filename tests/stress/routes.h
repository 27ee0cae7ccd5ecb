// The channels under test, each with a policy of its own, and what changes
// about them while calls run.

#ifndef RETRY_GUARD_TESTS_STRESS_ROUTES_H_
#define RETRY_GUARD_TESTS_STRESS_ROUTES_H_

#include <grpcpp/channel.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "retry_guard/channel.h"
#include "tests/stress/ledger.h"
#include "tests/stress/tally.h"

namespace retry_guard::stress {

// What the model has to know of a route.
struct RouteTraits {
  std::string policy;
  std::string other_policy;  // reloaded in turns with the first one; may be ""
  int max_attempts = 3;
  int other_max_attempts = 3;
  bool lists_aborted = false;
  bool per_attempt_timeout = false;
  bool breaker = false;
  bool sees_attempts = true;  // an interceptor after ours does
  bool restarts = false;      // its server comes and goes
  bool switched = false;      // its kill switch is flipped
  // Budget: what is granted is at most this; 0: more than is ever wanted.
  int min_retries = 0;
  double ratio = 0;
  absl::Duration window;

  bool unlimited() const {
    return !breaker && min_retries == 0 && !switched && !restarts;
  }
};

class Route {
 public:
  Route(RouteId id, std::string target, Ledger* ledger, Faults* faults);

  RouteId id() const { return id_; }
  const RouteTraits& traits() const { return traits_; }

  // The one channel; for the brief route, a new one each time.
  std::shared_ptr<grpc::Channel> channel();

  Guard& guard() { return *guard_; }
  Tally& tally() { return *tally_; }

  // Puts the other policy in force, or is refused a bad one.
  void Reload(bool bad);
  void Switch(bool on);
  uint64_t policy_epoch() const { return policy_epoch_; }
  uint64_t switch_epoch() const { return tally_->switch_epoch; }

  // How many attempts a call may have that was begun and has ended in these
  // epochs of the policy.
  int MaxAttempts(uint64_t begun, uint64_t ended) const;

  // The books of the guard against those of the test. When no call runs.
  void Audit(absl::Duration elapsed);

 private:
  std::shared_ptr<grpc::Channel> MakeChannel();

  const RouteId id_;
  const RouteTraits traits_;
  const std::string target_;
  Ledger* const ledger_;
  Faults* const faults_;
  const std::shared_ptr<Guard> guard_;
  const std::shared_ptr<Tally> tally_;
  InterceptorFactory* factory_ = nullptr;
  std::shared_ptr<grpc::Channel> channel_;
  // Even: a policy is in force, 0 and 4 and … the first one. Odd: either.
  std::atomic<uint64_t> policy_epoch_{0};
};

}  // namespace retry_guard::stress

#endif  // RETRY_GUARD_TESTS_STRESS_ROUTES_H_
