// The plugin: a client interceptor factory that makes retries safe. Most users
// want CreateChannel (channel.h), which registers it and turns the retries of
// gRPC core off; by hand it is
//
//   InterceptorOptions options;
//   options.service_config_json = kPolicy;
//   auto factory = InterceptorFactory::Create(std::move(options));
//   if (!factory.ok()) return factory.status();  // every error in the policy
//   std::vector<std::unique_ptr<ClientInterceptorFactoryInterface>> creators;
//   creators.push_back(*std::move(factory));
//   auto channel = grpc::experimental::CreateCustomChannelWithInterceptors(
//       target, credentials, arguments, std::move(creators));

#ifndef RETRY_GUARD_INTERCEPTOR_H_
#define RETRY_GUARD_INTERCEPTOR_H_

#include <grpcpp/support/client_interceptor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "retry_guard/guard.h"
#include "retry_guard/observer.h"
#include "retry_guard/policy/clock.h"
#include "retry_guard/policy/export.h"

namespace retry_guard {

namespace internal {
class ChannelState;
}  // namespace internal

// What the messages of the channel's calls are in memory. An interceptor sees
// them as void*, and has to know what to fill.
enum class MessageCodec {
  // Protobuf messages of methods that are linked into this program, and empty
  // ByteBuffers of generic stubs for such methods. Anything else passes through
  // un-retried, with Reason::kUnknownMessageType.
  kAuto,
  // These two are believed, not checked: where one is wrong the behaviour is
  // undefined.
  kProtobuf,    // every message is a google::protobuf::MessageLite
  kByteBuffer,  // every message is a grpc::ByteBuffer (generic stubs, proxies)
};

// Plain values, read once, when the factory or the channel is made.
struct InterceptorOptions {
  // The policy, as a gRPC service config. "": the channel's own service config,
  // as the name resolver delivers it; without one, the defaults.
  std::string service_config_json;
  // Names this layer in the marker that the services below see. "": the
  // config's retryGuard.layerName, else the name of the binary. At most 128
  // printable ASCII characters.
  std::string layer_name;
  // Told of everything, in this order; nulls are ignored. Kept until the last
  // call of the channel has ended.
  std::vector<std::shared_ptr<Observer>> observers;
  // Shared by several channels, which must use the same clock; null: a new one.
  std::shared_ptr<Guard> guard;
  MessageCodec codec = MessageCodec::kAuto;
  // Time and timers; null: the real ones. For tests.
  std::shared_ptr<Clock> clock;
  // Makes jitter, breaker times and idempotency keys repeatable: two processes
  // with the same seed send the same keys. For tests.
  std::optional<uint64_t> random_seed;
  // The channel was made with GRPC_ARG_ENABLE_RETRIES 0 (CreateChannel sets
  // this). Unless it says so, methods that have a retryPolicy in the service
  // config that gRPC core itself obeys are left to core: kCoreRetries.
  bool core_retries_off = false;
};

// Thread-safe. Belongs to one channel: gRPC destroys it with the channel. Calls
// that still run keep what they need.
class RETRY_GUARD_EXPORT InterceptorFactory final
    : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  // INVALID_ARGUMENT with every error, each with its path, if the policy is
  // bad, or if the layer name is. Observers hear of the policy on this thread.
  static absl::StatusOr<std::unique_ptr<InterceptorFactory>> Create(
      InterceptorOptions options);

  ~InterceptorFactory() override;

  // Always the same one; never null.
  std::shared_ptr<Guard> guard() const;

  // Puts another policy in force for the calls that start from now on; those in
  // flight keep theirs. A bad one is refused whole (INVALID_ARGUMENT with every
  // error) and changes nothing. "" is the defaults. Parameters of budget and
  // breaker are in force for calls in flight, too. From any thread; observers
  // are told on this one, before it returns. Every distinct text that is
  // accepted is kept until the channel and its calls are gone.
  absl::Status UpdateServiceConfig(std::string_view json);

  // For gRPC, which owns what it returns. Null on a thread that is just
  // creating an attempt of ours.
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo* info) override;

  // For the library's own use.
  const internal::ChannelState& state() const { return *state_; }

 private:
  explicit InterceptorFactory(std::shared_ptr<internal::ChannelState> state);

  const std::shared_ptr<internal::ChannelState> state_;
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_INTERCEPTOR_H_
