// What all calls of one channel have in common.

#ifndef RETRY_GUARD_CALL_CHANNEL_STATE_H_
#define RETRY_GUARD_CALL_CHANNEL_STATE_H_

#include <grpcpp/impl/channel_interface.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "retry_guard/call/guard_state.h"
#include "retry_guard/call/method_state.h"
#include "retry_guard/call/policy_source.h"
#include "retry_guard/interceptor.h"
#include "retry_guard/policy/clock.h"
#include "retry_guard/policy/mutex.h"
#include "retry_guard/policy/random.h"

namespace retry_guard::internal {

// Thread-safe. Shared by the factory and every call: a call may outlive the
// channel.
class ChannelState {
 public:
  explicit ChannelState(InterceptorOptions options);
  ~ChannelState();
  ChannelState(const ChannelState&) = delete;
  ChannelState& operator=(const ChannelState&) = delete;

  Clock& clock() { return *clock_; }
  const std::shared_ptr<Clock>& shared_clock() const { return clock_; }
  Random& random() { return random_; }
  GuardState& guard() { return guard_->state(); }
  const std::shared_ptr<Guard>& shared_guard() const { return guard_; }
  MessageCodec codec() const { return codec_; }
  MethodTable& methods() { return methods_; }
  PolicySource& policies() { return policies_; }

  // Our name in the marker, for a call that goes by `config`.
  const std::string& LayerName(const ServiceConfig& config) const;

  // See InterceptorFactory::UpdateServiceConfig.
  absl::Status SetExplicitConfig(std::string_view json);

  // Takes over the channel's own config if it has changed. Cheap: looks once a
  // second, once there is one.
  void LookAtChannelConfig(grpc::ChannelInterface* channel, absl::Time now);

  // The same while it is still unknown, before something is decided without it:
  // looks right now.
  void AwaitChannelConfig(grpc::ChannelInterface* channel);

  // Whether gRPC core retries this method, as far as is known.
  bool CoreRetries(std::string_view method) const;

  // To every observer, none of which can harm us.
  void Notify(const Decision& decision) const;
  void Notify(const AttemptReport& report) const;
  void Notify(const BreakerStateChange& change) const;
  void Notify(const PolicyChange& change) const;
  bool observed() const { return !observers_.empty(); }

 private:
  void Report(const PolicySource::Change& change);
  // Not where ours was given and core does not retry.
  bool ChannelConfigMatters() const;

  const std::vector<std::shared_ptr<Observer>> observers_;
  const std::shared_ptr<Guard> guard_;
  const std::shared_ptr<Clock> clock_;
  const MessageCodec codec_;
  const bool core_retries_off_;
  const std::string given_layer_name_;  // "": the config's, or the binary's
  const std::string binary_name_;
  Random random_;
  PolicySource policies_;
  MethodTable methods_;
  Mutex configure_mu_;  // one Configure of the guard at a time
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_CHANNEL_STATE_H_
