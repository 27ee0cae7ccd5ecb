#include "retry_guard/call/channel_state.h"

#include <cerrno>
#include <utility>

#include "absl/strings/str_join.h"
#include "retry_guard/call/real_clock.h"
#include "retry_guard/policy/marker.h"

namespace retry_guard::internal {
namespace {

// An observer is the application's code; one that throws must not end the
// process, leak a probe, or keep the next one from hearing.
template <typename Call>
void ForEach(const std::vector<std::shared_ptr<Observer>>& observers,
             const Call& call) {
  for (const std::shared_ptr<Observer>& observer : observers) {
    try {
      call(*observer);
    } catch (...) {
      // Swallowed, as is said above.
    }
  }
}

std::vector<std::shared_ptr<Observer>> WithoutNulls(
    std::vector<std::shared_ptr<Observer>> observers) {
  std::vector<std::shared_ptr<Observer>> present;
  for (std::shared_ptr<Observer>& observer : observers) {
    if (observer != nullptr) present.push_back(std::move(observer));
  }
  return present;
}

}  // namespace

ChannelState::ChannelState(InterceptorOptions options)
    : observers_(WithoutNulls(std::move(options.observers))),
      guard_(options.guard != nullptr ? std::move(options.guard)
                                      : Guard::Create()),
      clock_(options.clock != nullptr ? std::move(options.clock) : RealClock()),
      codec_(options.codec),
      core_retries_off_(options.core_retries_off),
      given_layer_name_(std::move(options.layer_name)),
      binary_name_(PrintableOwner(program_invocation_short_name)),
      random_(options.random_seed) {
  guard().SetClock(clock_);
}

ChannelState::~ChannelState() { guard().Forget(this); }

const std::string& ChannelState::LayerName(const ServiceConfig& config) const {
  if (!given_layer_name_.empty()) return given_layer_name_;
  if (!config.layer_name().empty()) return config.layer_name();
  return binary_name_;
}

absl::Status ChannelState::SetExplicitConfig(std::string_view json) {
  const PolicySource::Change change = policies_.SetExplicit(json);
  Report(change);
  return change.error;
}

void ChannelState::LookAtChannelConfig(grpc::ChannelInterface* channel,
                                       absl::Time now) {
  if (!ChannelConfigMatters()) return;
  // Until the resolver has answered each call looks: one that goes by the
  // defaults for want of the policy is one too many.
  if (!policies_.channel_config_seen() || policies_.TimeToLook(now)) {
    Report(policies_.LookAtChannel(channel));
  }
}

void ChannelState::AwaitChannelConfig(grpc::ChannelInterface* channel) {
  if (!ChannelConfigMatters() || policies_.channel_config_seen()) return;
  Report(policies_.LookAtChannel(channel));
}

bool ChannelState::ChannelConfigMatters() const {
  return !core_retries_off_ || !policies_.is_explicit();
}

bool ChannelState::CoreRetries(std::string_view method) const {
  return !core_retries_off_ && policies_.ChannelRetries(method);
}

void ChannelState::Report(const PolicySource::Change& change) {
  if (!change.error.ok()) {
    Notify(PolicyChange{PolicyChange::Kind::kRefused,
                        std::string_view(change.error.message().data(),
                                         change.error.message().size())});
    return;
  }
  if (!change.applied) return;
  bool guard_agrees = true;
  {
    // What is in force by now: another thread may have been between.
    MutexLock lock(configure_mu_);
    guard_agrees = guard().Configure(this, policies_.Current(), clock_->Now());
  }
  const std::string warnings = absl::StrJoin(change.config->warnings(), "\n");
  Notify(PolicyChange{PolicyChange::Kind::kApplied, warnings});
  if (!guard_agrees) {
    Notify(PolicyChange{
        PolicyChange::Kind::kGuardDiffers,
        "retryGuard.budget, retryGuard.breaker or retryThrottling differ from "
        "what another channel of the same Guard has set; they are ignored"});
  }
}

void ChannelState::Notify(const Decision& decision) const {
  ForEach(observers_, [&](Observer& o) { o.OnDecision(decision); });
}
void ChannelState::Notify(const AttemptReport& report) const {
  ForEach(observers_, [&](Observer& o) { o.OnAttempt(report); });
}
void ChannelState::Notify(const BreakerStateChange& change) const {
  ForEach(observers_, [&](Observer& o) { o.OnBreakerStateChange(change); });
}
void ChannelState::Notify(const PolicyChange& change) const {
  ForEach(observers_, [&](Observer& o) { o.OnPolicyChange(change); });
}

}  // namespace retry_guard::internal
