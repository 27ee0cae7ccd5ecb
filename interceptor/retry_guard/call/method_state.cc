#include "retry_guard/call/method_state.h"

#include "absl/hash/hash.h"

namespace retry_guard::internal {

MethodState::MethodState(std::string_view name) : name_(name), types_(name) {}

const grpc::internal::RpcMethod& MethodState::rpc_method(
    grpc::internal::RpcMethod::RpcType type, grpc::ChannelInterface* channel) {
  using grpc::internal::RpcMethod;
  Registered& registered = registered_[type];
  absl::call_once(registered.once, [this, &registered, type, channel] {
    if (channel == nullptr) {
      registered.method = std::make_unique<RpcMethod>(name_.c_str(), type);
      return;
    }
    // Registering wants shared ownership, and uses the channel only right now.
    const std::shared_ptr<grpc::ChannelInterface> not_owned(
        std::shared_ptr<void>(), channel);
    registered.method =
        std::make_unique<RpcMethod>(name_.c_str(), type, not_owned);
  });
  return *registered.method;
}

const MethodPolicy& MethodState::PolicyIn(const ServiceConfig& config) {
  if (looked_up_in_.load(std::memory_order_acquire) == &config) {
    const MethodPolicy* const policy = policy_.load(std::memory_order_acquire);
    if (config.Owns(*policy)) return *policy;
  }
  const MethodPolicy& policy = config.ForMethod(name_);
  policy_.store(&policy, std::memory_order_release);
  looked_up_in_.store(&config, std::memory_order_release);
  return policy;
}

MethodTable::~MethodTable() {
  for (std::atomic<Node*>& bucket : buckets_) {
    Node* node = bucket.load(std::memory_order_relaxed);
    while (node != nullptr) {
      const std::unique_ptr<Node> doomed(node);
      node = node->next;
    }
  }
}

MethodState* MethodTable::FindOrAdd(std::string_view name) {
  std::atomic<Node*>& bucket =
      buckets_[absl::Hash<std::string_view>()(name) % kBuckets];
  const auto find = [&]() -> MethodState* {
    for (Node* node = bucket.load(std::memory_order_acquire); node != nullptr;
         node = node->next) {
      if (node->state.name() == name) return &node->state;
    }
    return nullptr;
  };
  if (MethodState* const found = find(); found != nullptr) return found;

  MutexLock lock(mu_);
  if (MethodState* const found = find(); found != nullptr) return found;
  if (size_ >= kMaxMethods) return nullptr;
  ++size_;
  auto* const node = new Node(name, bucket.load(std::memory_order_relaxed));
  bucket.store(node, std::memory_order_release);
  return &node->state;
}

}  // namespace retry_guard::internal
