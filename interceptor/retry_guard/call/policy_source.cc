#include "retry_guard/call/policy_source.h"

#include <grpcpp/channel.h>

#include <utility>

#include "retry_guard/policy/absl_view.h"

namespace retry_guard::internal {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(1);

}  // namespace

PolicySource::PolicySource() {
  const auto defaults = ServiceConfig::Default();
  kept_[""] = defaults;
  current_.store(defaults.get(), std::memory_order_release);
}

absl::StatusOr<std::shared_ptr<const ServiceConfig>> PolicySource::Parse(
    std::string_view json) {
  const auto found = kept_.find(AbslView(json));
  if (found != kept_.end()) return found->second;
  auto parsed = ParseServiceConfig(json);
  if (parsed.ok()) kept_[AbslView(json)] = *parsed;
  return parsed;
}

PolicySource::Change PolicySource::SetExplicit(std::string_view json) {
  MutexLock lock(mu_);
  Change change;
  auto parsed = Parse(json);
  if (!parsed.ok()) {
    change.error = parsed.status();
    return change;
  }
  explicit_.store(true, std::memory_order_release);
  change.applied = true;
  change.config = *std::move(parsed);
  current_.store(change.config.get(), std::memory_order_release);
  return change;
}

bool PolicySource::TimeToLook(absl::Time now) {
  const int64_t nanos = absl::ToUnixNanos(now);
  int64_t due = next_look_nanos_.load(std::memory_order_relaxed);
  if (nanos < due) return false;
  return next_look_nanos_.compare_exchange_strong(
      due, nanos + absl::ToInt64Nanoseconds(kLookEvery),
      std::memory_order_relaxed);
}

PolicySource::Change PolicySource::LookAtChannel(
    grpc::ChannelInterface* channel) {
  Change change;
  // A channel of another kind (a test's mock) has no service config.
  auto* const real = dynamic_cast<grpc::Channel*>(channel);
  if (real == nullptr) return change;

  // Asked under the lock, so that no older answer comes after a newer one.
  MutexLock lock(mu_);
  const std::string json = real->GetServiceConfigJSON();
  if (json.empty()) return change;
  if (seen_.load(std::memory_order_relaxed) && json == channel_json_) {
    return change;
  }
  channel_json_ = json;
  auto parsed = Parse(json);
  core_unreadable_.store(!parsed.ok(), std::memory_order_release);
  core_.store(parsed.ok() ? parsed->get() : nullptr, std::memory_order_release);
  seen_.store(true, std::memory_order_release);
  if (is_explicit()) return change;
  if (!parsed.ok()) {
    change.error = parsed.status();
    return change;
  }
  change.config = *std::move(parsed);
  change.applied =
      change.config.get() != current_.load(std::memory_order_relaxed);
  current_.store(change.config.get(), std::memory_order_release);
  return change;
}

bool PolicySource::ChannelRetries(std::string_view method) const {
  // Core reads less strictly than we do. What it makes of a config that we
  // refuse is not known; two retry loops on top of each other are the worse
  // mistake.
  if (core_unreadable_.load(std::memory_order_acquire)) return true;
  const ServiceConfig* const core = core_.load(std::memory_order_acquire);
  return core != nullptr && core->ForMethod(method).has_retry_policy;
}

}  // namespace retry_guard::internal
