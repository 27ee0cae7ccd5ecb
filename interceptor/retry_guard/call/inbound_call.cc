#include "retry_guard/call/inbound_call.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/hash/hash.h"
#include "retry_guard/call/core_time.h"

namespace retry_guard::internal {

namespace {

// gRPC rounds its timeout up on the wire; the marker does not.
gpr_timespec MarkedDeadline(const std::optional<RetryMarker>& marker,
                            gpr_timespec context_deadline) {
  if (!marker.has_value()) return context_deadline;
  return CoreTimeAfter(
      std::min(TimeUntil(context_deadline), marker->remaining));
}

}  // namespace

InboundCall::InboundCall(std::optional<RetryMarker> marker,
                         gpr_timespec context_deadline)
    : marker_(std::move(marker)),
      context_deadline_(context_deadline),
      marked_deadline_(MarkedDeadline(marker_, context_deadline)) {}

void InboundCall::AdviseNever(absl::StatusCode code) {
  MutexLock lock(mu_);
  Advice advice;
  advice.never = true;
  advice_[static_cast<size_t>(code)] = advice;
}

void InboundCall::AdviseLater(absl::StatusCode code, gpr_timespec when) {
  MutexLock lock(mu_);
  std::optional<Advice>& advice = advice_[static_cast<size_t>(code)];
  if (advice.has_value() && advice->never) return;
  Advice later;
  later.when = when;
  advice = later;
}

std::optional<int32_t> InboundCall::PushbackFor(absl::StatusCode code) const {
  MutexLock lock(mu_);
  const std::optional<Advice>& advice = advice_[static_cast<size_t>(code)];
  if (!advice.has_value()) return std::nullopt;
  if (advice->never) return -1;
  const absl::Duration wait =
      std::clamp(TimeUntil(advice->when), absl::ZeroDuration(),
                 absl::Milliseconds(std::numeric_limits<int32_t>::max()));
  return static_cast<int32_t>(
      absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
}

InboundCalls& InboundCalls::OfThisProcess() {
  static auto* const calls = new InboundCalls();
  return *calls;
}

const InboundCalls::Shard& InboundCalls::ShardOf(const grpc_call* call) const {
  return shards_[absl::Hash<const grpc_call*>()(call) % kShards];
}

InboundCalls::Shard& InboundCalls::ShardOf(const grpc_call* call) {
  return shards_[absl::Hash<const grpc_call*>()(call) % kShards];
}

void InboundCalls::Add(const grpc_call* call,
                       std::shared_ptr<InboundCall> inbound) {
  Shard& shard = ShardOf(call);
  MutexLock lock(shard.mu);
  shard.calls[call] = std::move(inbound);
}

void InboundCalls::Remove(const grpc_call* call, const InboundCall* inbound) {
  Shard& shard = ShardOf(call);
  MutexLock lock(shard.mu);
  const auto found = shard.calls.find(call);
  if (found != shard.calls.end() && found->second.get() == inbound) {
    shard.calls.erase(found);
  }
}

std::shared_ptr<InboundCall> InboundCalls::Find(const grpc_call* call) const {
  const Shard& shard = ShardOf(call);
  MutexLock lock(shard.mu);
  const auto found = shard.calls.find(call);
  return found == shard.calls.end() ? nullptr : found->second;
}

size_t InboundCalls::size() const {
  size_t size = 0;
  for (const Shard& shard : shards_) {
    MutexLock lock(shard.mu);
    size += shard.calls.size();
  }
  return size;
}

}  // namespace retry_guard::internal
