// What is remembered of one method on one channel, from call to call.

#ifndef RETRY_GUARD_CALL_METHOD_STATE_H_
#define RETRY_GUARD_CALL_METHOD_STATE_H_

#include <grpcpp/impl/channel_interface.h>
#include <grpcpp/impl/rpc_method.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/call_once.h"
#include "absl/base/thread_annotations.h"
#include "retry_guard/call/codec.h"
#include "retry_guard/config/service_config.h"
#include "retry_guard/policy/circuit_breaker.h"
#include "retry_guard/policy/deadline.h"
#include "retry_guard/policy/method_policy.h"
#include "retry_guard/policy/mutex.h"

namespace retry_guard::internal {

// Thread-safe.
class MethodState {
 public:
  explicit MethodState(std::string_view name);

  const std::string& name() const { return name_; }
  const MethodTypes& types() const { return types_; }
  AttemptTimeEstimate& estimate() { return estimate_; }

  // For attempts. With a channel, core is told of the method once, so that it
  // need not look at its name for every call. (A method has one type; but a
  // generic stub may call it as another.)
  const grpc::internal::RpcMethod& rpc_method(
      grpc::internal::RpcMethod::RpcType type, grpc::ChannelInterface* channel);

  // What `config` says of this method. The name is looked up once per config;
  // `config` must live as long as the channel, as all configs of one do.
  const MethodPolicy& PolicyIn(const ServiceConfig& config);

  // Of the guard; cached here once it was looked up.
  std::atomic<CircuitBreaker*> own_breaker{nullptr};

 private:
  const std::string name_;
  const MethodTypes types_;
  AttemptTimeEstimate estimate_;
  // The two may be seen out of step; hence the check.
  std::atomic<const ServiceConfig*> looked_up_in_{nullptr};
  std::atomic<const MethodPolicy*> policy_{nullptr};
  struct Registered {
    absl::once_flag once;
    std::unique_ptr<grpc::internal::RpcMethod> method;
  };
  static constexpr size_t kRpcTypes =
      grpc::internal::RpcMethod::BIDI_STREAMING + 1;
  std::array<Registered, kRpcTypes> registered_;
};

// The methods of a channel by name. Lookup takes no lock. What it holds is
// bounded: a proxy whose callers choose the method names must not fill memory.
class MethodTable {
 public:
  MethodTable() = default;
  ~MethodTable();
  MethodTable(const MethodTable&) = delete;
  MethodTable& operator=(const MethodTable&) = delete;

  // Null when the table is full and does not have it.
  MethodState* FindOrAdd(std::string_view name);

 private:
  static constexpr size_t kBuckets = 256;
  static constexpr int kMaxMethods = 4096;

  struct Node {
    explicit Node(std::string_view name, Node* next)
        : state(name), next(next) {}
    MethodState state;
    Node* const next;
  };

  std::array<std::atomic<Node*>, kBuckets> buckets_ = {};
  Mutex mu_;
  int size_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_METHOD_STATE_H_
