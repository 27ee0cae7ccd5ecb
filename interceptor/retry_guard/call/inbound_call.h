// What is known of the inbound calls that this process serves right now, for
// the outbound calls that are made on their behalf.

#ifndef RETRY_GUARD_CALL_INBOUND_CALL_H_
#define RETRY_GUARD_CALL_INBOUND_CALL_H_

#include <grpc/grpc.h>
#include <grpc/support/time.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "retry_guard/policy/marker.h"
#include "retry_guard/policy/mutex.h"
#include "retry_guard/policy/striped.h"

namespace retry_guard::internal {

// One inbound call. Thread-safe. Shared by its server interceptor and the
// outbound calls, any of which may outlive it.
class InboundCall {
 public:
  // `marker`: nothing if there is none, or the server interceptor does not
  // trust it.
  InboundCall(std::optional<RetryMarker> marker, gpr_timespec context_deadline);

  // Null if there is none, or it is not to be trusted.
  const RetryMarker* marker() const {
    return trusts_marker() ? &*marker_ : nullptr;
  }

  // The earliest of the context's and the marker's.
  gpr_timespec deadline() const {
    return trusts_marker() ? marked_deadline_ : context_deadline_;
  }

  // The handler does not trust the marker: from now on there is none.
  void DropMarker() { dropped_.store(true, std::memory_order_relaxed); }

  // An outbound call of this one ended with `code`, for good: no layer above
  // should retry it...
  void AdviseNever(absl::StatusCode code);
  // ... or not before the breaker lets a probe through.
  void AdviseLater(absl::StatusCode code, gpr_timespec when);

  // The pushback in milliseconds for a handler that returns `code`; nothing
  // if nobody has advised anything about it.
  std::optional<int32_t> PushbackFor(absl::StatusCode code) const;

 private:
  struct Advice {
    bool never = false;
    gpr_timespec when = gpr_inf_past(GPR_CLOCK_MONOTONIC);
  };

  bool trusts_marker() const {
    return marker_.has_value() && !dropped_.load(std::memory_order_relaxed);
  }

  const std::optional<RetryMarker> marker_;
  const gpr_timespec context_deadline_;
  const gpr_timespec marked_deadline_;
  std::atomic<bool> dropped_{false};
  mutable Mutex mu_;
  std::array<std::optional<Advice>, 17> advice_ ABSL_GUARDED_BY(mu_);
};

// All of them, by core's call object. Thread-safe.
class InboundCalls {
 public:
  static InboundCalls& OfThisProcess();

  void Add(const grpc_call* call, std::shared_ptr<InboundCall> inbound);
  // Only if it is (still) registered as `inbound`: core may have used the same
  // memory for another call meanwhile.
  void Remove(const grpc_call* call, const InboundCall* inbound);
  std::shared_ptr<InboundCall> Find(const grpc_call* call) const;

  // For tests: that nothing leaks.
  size_t size() const;

 private:
  // Threads that serve different calls rarely meet.
  static constexpr size_t kShards = 64;
  struct alignas(kCacheLine) Shard {
    mutable Mutex mu;
    absl::flat_hash_map<const grpc_call*, std::shared_ptr<InboundCall>> calls
        ABSL_GUARDED_BY(mu);
  };
  Shard& ShardOf(const grpc_call* call);
  const Shard& ShardOf(const grpc_call* call) const;

  std::array<Shard, kShards> shards_;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_INBOUND_CALL_H_
