#include "tests/conformance/kinds.h"

#include <map>

namespace retry_guard::conformance {
namespace {

void ReplayParse(const Table& table, const Fields& scenario, Report& report) {
  const Fields input = scenario.Object("input");
  if (input.Has("json") || input.Has("json_raw")) {
    ReplayDuration(table, scenario, report);
  } else if (input.Has("retry_grpc_on")) {
    ReplayConditions(scenario, "retry_grpc_on", report);
  } else {
    ReplayHint(table, scenario, report);
  }
}

template <const char* const& kWhy>
void Skip(const Table&, const Fields&, Report& report) {
  report.NotApplicable(kWhy);
}

constexpr const char* kConcurrency =
    "a budget over requests in flight; ours is over a window of time";
constexpr const char* kPricedQuota =
    "a quota whose tokens have a price per class of error and come back by "
    "success; ours is a share of the calls of a window";
constexpr const char* kWindowHidden =
    "looks into the breaker's window, which ours does not show";

}  // namespace

Replay ReplayOf(const std::string& kind) {
  static const auto* const kinds = new std::map<std::string, Replay>{
      {"backoff_sequence", ReplayBackoff},
      {"breaker_decision", ReplayBreakerDecision},
      {"breaker_sequence", ReplayBreaker},
      {"budget", ReplayBudget},
      {"budget_concurrency", Skip<kConcurrency>},
      {"classification", ReplayClassification},
      {"config_validation", ReplayConfig},
      {"interceptor_chain", ReplayInterceptors},
      {"mapping", ReplayMapping},
      {"parse", ReplayParse},
      {"property", ReplayProperty},
      {"quota_ops", Skip<kPricedQuota>},
      {"retry_after", ReplayRetryAfter},
      {"retry_call", ReplayCall},
      {"retry_quota", ReplayQuota},
      {"rule", ReplayRule},
      {"simulation", ReplaySimulation},
      {"throttle_calls", ReplayThrottleCalls},
      {"throttle_decision", ReplayThrottleDecision},
      {"throttle_sequence", ReplayThrottleSequence},
      {"token_bucket", ReplayTokenBucket},
      {"window", Skip<kWindowHidden>},
      // Tables of numbers: their columns are their kind.
      {"bucket_start,algorithm,mean_writes_per_bucket,sd",
       ReplaySimulationSeries},
      {"clients,algorithm,trials,time_mean,time_sd,time_p50,time_p95,"
       "calls_mean,calls_sd,calls_p50,calls_p95,calls_per_client",
       ReplaySimulationCell},
  };
  const auto found = kinds->find(kind);
  return found == kinds->end() ? nullptr : found->second;
}

}  // namespace retry_guard::conformance
