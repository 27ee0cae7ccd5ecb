// Which service config is in force for a channel, and what gRPC core makes of
// the channel's own.

#ifndef RETRY_GUARD_CALL_POLICY_SOURCE_H_
#define RETRY_GUARD_CALL_POLICY_SOURCE_H_

#include <grpcpp/impl/channel_interface.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "retry_guard/config/service_config.h"
#include "retry_guard/policy/mutex.h"

namespace retry_guard::internal {

// Sources, the first one present wins: UpdateServiceConfig, the JSON of the
// options, the channel's own config as the resolver delivered it, the defaults.
//
// Thread-safe. Current() and the two checks are a few atomic loads; configs are
// kept until the channel dies, since a call keeps the policy that it started
// with, and equal texts are parsed once.
class PolicySource {
 public:
  struct Change {
    bool applied = false;                         // another config is in force
    absl::Status error;                           // the new one is bad
    std::shared_ptr<const ServiceConfig> config;  // the one now in force
  };

  PolicySource();

  // In force right now; valid as long as this source.
  const ServiceConfig& Current() const {
    return *current_.load(std::memory_order_acquire);
  }

  // From the application. Outranks the channel's own for good.
  Change SetExplicit(std::string_view json);

  // Whether it is time to look at the channel's own config again: the last look
  // was over a second ago. Claims the look.
  bool TimeToLook(absl::Time now);

  bool channel_config_seen() const {
    return seen_.load(std::memory_order_acquire);
  }

  // The application has given a config: the channel's own is core's business.
  bool is_explicit() const { return explicit_.load(std::memory_order_acquire); }

  // Reads the channel's own config. It is unknown until the resolver has
  // answered, which on a fresh channel is after the first call has started.
  Change LookAtChannel(grpc::ChannelInterface* channel);

  // Whether the channel's own config has a retryPolicy for `method`, which core
  // obeys unless its retries are off.
  bool ChannelRetries(std::string_view method) const;

 private:
  absl::StatusOr<std::shared_ptr<const ServiceConfig>> Parse(
      std::string_view json) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::atomic<const ServiceConfig*> current_;
  // What core obeys; null: no retries that we know of.
  std::atomic<const ServiceConfig*> core_{nullptr};
  std::atomic<bool> core_unreadable_{false};
  std::atomic<bool> seen_{false};
  std::atomic<int64_t> next_look_nanos_{0};

  std::atomic<bool> explicit_{false};

  Mutex mu_;
  std::string channel_json_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, std::shared_ptr<const ServiceConfig>> kept_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_POLICY_SOURCE_H_
