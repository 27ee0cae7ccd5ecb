#include "tests/stress/routes.h"

#include <grpcpp/create_channel.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/end2end/fixture.h"

namespace retry_guard::stress {
namespace {

using end2end::Policy;

Policy Common(int attempts) {
  Policy policy(attempts);
  policy.Guard(R"("jitter": "FULL", "maxPushback": "0.1s")");
  return policy;
}

Policy& Unbounded(Policy& policy) {
  return policy.Budget(
      R"("ratio": 1, "minRetries": 1000000000, "window": "10s")");
}

RouteTraits TraitsOf(RouteId id) {
  RouteTraits traits;
  switch (id) {
    case RouteId::kBudgeted: {
      traits.sees_attempts = false;
      traits.breaker = true;
      traits.switched = true;
      traits.min_retries = 10;
      traits.ratio = 0.1;
      traits.window = absl::Seconds(1);
      Policy policy = Common(3);
      policy.Budget(R"("ratio": 0.1, "minRetries": 10, "window": "1s")")
          .Breaker(R"("failureRate": 0.6, "minRequests": 20, "window": "0.5s",
                      "openFor": "0.02s", "maxOpenFor": "0.1s")");
      traits.policy = policy;
      break;
    }
    case RouteId::kGenerous: {
      traits.switched = true;
      traits.other_max_attempts = 4;
      Policy policy = Common(3), other = Common(4);
      traits.policy = Unbounded(policy.NoBreaker());
      traits.other_policy = Unbounded(other.NoBreaker());
      break;
    }
    case RouteId::kTimeouts: {
      traits.max_attempts = traits.other_max_attempts = 4;
      traits.per_attempt_timeout = true;
      traits.lists_aborted = true;
      Policy policy = Common(4);
      policy.Codes(R"("UNAVAILABLE", "ABORTED")")
          .Guard(R"("perAttemptTimeout": "0.02s", "idempotency": "IDEMPOTENT",
                    "bufferLimitBytes": 1000, "minAttemptTime": "0.000001s")")
          .NoBreaker();
      traits.policy = Unbounded(policy);
      break;
    }
    case RouteId::kBreakers: {
      traits.breaker = true;
      traits.max_attempts = traits.other_max_attempts = 5;
      Policy policy = Common(5);
      policy.Guard(R"("breaker": "OWN", "idempotencyKey": true)")
          .Breaker(R"("failureRate": 0.6, "minRequests": 20, "window": "0.5s",
                      "consecutiveFailures": 6, "probes": 2,
                      "openFor": "0.02s", "maxOpenFor": "0.1s")");
      traits.policy = Unbounded(policy);
      break;
    }
    case RouteId::kShaky: {
      traits.restarts = true;
      Policy policy = Common(3);
      traits.policy = Unbounded(policy.NoBreaker());
      break;
    }
    case RouteId::kBrief: {
      Policy policy = Common(3);
      traits.policy = Unbounded(policy.NoBreaker());
      break;
    }
  }
  return traits;
}

[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

}  // namespace

Route::Route(RouteId id, std::string target, Ledger* ledger, Faults* faults)
    : id_(id),
      traits_(TraitsOf(id)),
      target_(std::move(target)),
      ledger_(ledger),
      faults_(faults),
      guard_(Guard::Create()),
      tally_(std::make_shared<Tally>()) {
  if (id_ != RouteId::kBrief) channel_ = MakeChannel();
}

std::shared_ptr<grpc::Channel> Route::channel() {
  return channel_ != nullptr ? channel_ : MakeChannel();
}

std::shared_ptr<grpc::Channel> Route::MakeChannel() {
  InterceptorOptions options;
  options.service_config_json = traits_.policy;
  options.guard = guard_;
  options.observers = {CountDecisions(tally_, guard_)};
  grpc::ChannelArguments arguments;
  if (traits_.restarts) {
    // Who waits a second to connect again does not notice much.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 5);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 20);
  }
  const auto credentials = grpc::InsecureChannelCredentials();
  std::vector<std::unique_ptr<ClientFactory>> factories;
  factories.push_back(CountCalls(tally_));
  if (!traits_.sees_attempts) {
    auto channel = CreateChannel(target_, credentials, std::move(options),
                                 arguments, std::move(factories));
    if (!channel.ok()) Die(channel.status());
    return *std::move(channel);
  }
  options.core_retries_off = true;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  auto ours = InterceptorFactory::Create(std::move(options));
  if (!ours.ok()) Die(ours.status());
  factory_ = id_ == RouteId::kBrief ? nullptr : ours->get();
  factories.push_back(*std::move(ours));
  factories.push_back(WatchAttempts(tally_, ledger_, faults_));
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      target_, credentials, arguments, std::move(factories));
}

void Route::Reload(bool bad) {
  if (factory_ == nullptr || traits_.other_policy.empty()) return;
  if (bad) {
    if (factory_->UpdateServiceConfig(R"({"retryGuard": {"budgt": {}}})")
            .ok()) {
      faults_->Add("a bad policy is accepted");
    }
    return;
  }
  const uint64_t epoch = ++policy_epoch_;
  const bool first = epoch % 4 == 3;
  if (!factory_
           ->UpdateServiceConfig(first ? traits_.policy : traits_.other_policy)
           .ok()) {
    faults_->Add("a good policy is refused");
  }
  ++policy_epoch_;
}

void Route::Switch(bool on) {
  if (!traits_.switched || on == (tally_->switch_epoch % 2 == 0)) return;
  if (on) ++tally_->switch_epoch;
  guard_->SetRetriesEnabled(on);
  if (!on) ++tally_->switch_epoch;
}

int Route::MaxAttempts(uint64_t begun, uint64_t ended) const {
  if (begun == ended && begun % 4 == 0) return traits_.max_attempts;
  if (begun == ended && begun % 4 == 2) return traits_.other_max_attempts;
  return std::max(traits_.max_attempts, traits_.other_max_attempts);
}

void Route::Audit(absl::Duration elapsed) {
  const GuardSnapshot now = guard_->Snapshot();
  int64_t ended = 0;
  for (const int64_t count : now.attempts_to_success) ended += count;
  for (const auto& [reason, count] : now.refusals) ended += count;
  const auto expect = [&](bool right, const std::string& what) {
    if (!right) faults_->Add(absl::StrCat(RouteName(id_), ": ", what));
  };
  expect(ended == tally_->begun,
         absl::StrCat("the guard says that ", ended, " calls have ended, of ",
                      tally_->begun.load()));
  expect(tally_->returns == tally_->begun,
         absl::StrCat(tally_->returns.load(), " last decisions for ",
                      tally_->begun.load(), " calls"));
  expect(now.calls <= tally_->begun, "more calls than were begun");
  expect(now.retries == now.attempts - now.calls, "retries do not add up");
  expect(now.retries <= tally_->retries, "more retries than were decided");
  // An attempt that the application dropped is not reported.
  const int64_t unreported = now.attempts - tally_->reports;
  expect(unreported >= 0 && unreported <= tally_->dropped,
         absl::StrCat(now.attempts, " attempts, ", tally_->reports.load(),
                      " reports, ", tally_->dropped.load(), " dropped"));
  if (traits_.sees_attempts) {
    const int64_t unseen = now.attempts - tally_->started;
    expect(unseen >= 0 && unseen <= tally_->dropped,
           absl::StrCat(now.attempts, " attempts, of which ",
                        tally_->started.load(), " started"));
  }
  if (traits_.min_retries > 0) {
    const double windows = std::ceil(elapsed / traits_.window) + 1;
    const double bound = traits_.ratio * static_cast<double>(now.calls) +
                         traits_.min_retries * windows;
    expect(static_cast<double>(now.retries) <= bound,
           absl::StrCat(now.retries, " retries, beyond the budget of ", bound));
  }
}

}  // namespace retry_guard::stress
