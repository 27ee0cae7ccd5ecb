// A real call over a real channel to a real server, with a manual clock for the
// waits: no scenario takes the time that it speaks of.

#ifndef RETRY_GUARD_TESTS_CONFORMANCE_CALLS_H_
#define RETRY_GUARD_TESTS_CONFORMANCE_CALLS_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "retry_guard/guard.h"
#include "retry_guard/testing/manual_clock.h"
#include "retry_guard/testing/recording_observer.h"
#include "tests/conformance/config_text.h"
#include "tests/conformance/scenario_server.h"
#include "tests/end2end/call_styles.h"

namespace retry_guard::conformance {

struct CallPlan {
  // Budget and breaker are out of the way unless `config.top` sets them.
  ConfigText config;
  std::vector<Reply> replies = {Reply::Ok()};
  std::string method = "Unary";
  std::multimap<std::string, std::string> metadata;
  size_t request_bytes = 2;

  bool retries_enabled = true;
  absl::Duration deadline = absl::InfiniteDuration();  // real time
  bool cancel_in_flight = false;   // once all attempts of the script are there
  bool cancel_in_backoff = false;  // instead of the first wait

  // So many attempts fail on this side of the wire, with this status.
  int local_failures = 0;
  grpc::StatusCode local_status = grpc::StatusCode::OK;
  // So many attempts find no server; negative: none ever does.
  int connect_failures = 0;
};

struct CallSeen {
  grpc::Status status;
  std::string text;  // of the reply
  std::vector<testing::RecordedDecision> decisions;
  std::vector<SeenAttempt> attempts;  // that the server saw
  GuardSnapshot snapshot;
  // Thousandths left in the throttle at each decision.
  std::vector<int64_t> throttle;
  // All that belonged to the call and its channel is gone.
  bool everything_freed = false;

  int attempts_sent() const { return static_cast<int>(snapshot.attempts); }
  Reason last_reason() const {
    return decisions.empty() ? Reason::kSucceeded : decisions.back().reason;
  }
};

// A channel and its server, for one call after the other.
class CallRig {
 public:
  // `plan.config` must be a good one.
  explicit CallRig(const CallPlan& plan);
  ~CallRig();

  // Makes one call; what was seen of earlier ones is in it too.
  CallSeen Call(end2end::Style style);

  // The bucket of retryThrottling, for scenarios that start in the middle.
  void BurnThrottleTokens(int count);
  // Drops the channel; whether everything that belonged to its calls goes, too.
  bool Free();
  std::optional<int64_t> throttle_milli_tokens() const;

 private:
  class Throttled;

  void Pump(end2end::StartedCall& call, grpc::ClientContext& context);

  const CallPlan plan_;
  const std::shared_ptr<Guard> guard_;
  std::shared_ptr<testing::ManualClock> clock_;
  std::shared_ptr<Throttled> observer_;
  std::unique_ptr<ScenarioServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  int port_ = 0;
  size_t pumped_ = 0;
};

// One call of its own.
CallSeen MakeCall(const CallPlan& plan, end2end::Style style);

}  // namespace retry_guard::conformance

#endif  // RETRY_GUARD_TESTS_CONFORMANCE_CALLS_H_
