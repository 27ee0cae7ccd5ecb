// The parts of a service config that hold for the whole channel:
// `retryThrottling` and the top-level `retryGuard`.

#ifndef RETRY_GUARD_CONFIG_CHANNEL_CONFIG_READER_H_
#define RETRY_GUARD_CONFIG_CHANNEL_CONFIG_READER_H_

#include <string>

#include "retry_guard/config/error_list.h"
#include "retry_guard/config/json.h"
#include "retry_guard/config/source_edits.h"
#include "retry_guard/policy/method_policy.h"

namespace retry_guard {

struct ChannelConfig {
  GuardPolicy guard;
  bool sets_guard = false;  // it says something about that
  std::string layer_name;   // "" if there is none
};

// REQUIRES: `service_config` is an object. What core would refuse or misread is
// respelt in `for_core`.
ChannelConfig ReadChannelConfig(const JsonValue& service_config,
                                ErrorList* errors, SourceEdits* for_core);

}  // namespace retry_guard

#endif  // RETRY_GUARD_CONFIG_CHANNEL_CONFIG_READER_H_
