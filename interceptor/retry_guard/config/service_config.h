// Service config JSON -> policy. The standard part follows gRFC A6 and A2; ours
// stands in `retryGuard` objects, which gRPC ignores (see
// proto/retry_guard/policy.proto for the keys and ranges).
//
//   auto config = ParseServiceConfig(json);
//   if (!config.ok()) return config.status();  // every error, with its path
//   const MethodPolicy& policy = (*config)->ForMethod("/pkg.Service/Get");

#ifndef RETRY_GUARD_CONFIG_SERVICE_CONFIG_H_
#define RETRY_GUARD_CONFIG_SERVICE_CONFIG_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "retry_guard/policy/export.h"
#include "retry_guard/policy/method_policy.h"

namespace retry_guard {

// Immutable once parsed, hence thread-safe.
class RETRY_GUARD_EXPORT ServiceConfig {
 public:
  // Everything at its default: what holds without any config.
  static std::shared_ptr<const ServiceConfig> Default();

  // The most specific name wins, whatever the order in the file:
  // service and method > service > everything > built-in default.
  // `method` is "/package.Service/Method".
  const MethodPolicy& ForMethod(std::string_view method) const;

  // `policy` is one that ForMethod of this object returns.
  bool Owns(const MethodPolicy& policy) const;

  // What a Guard takes from this config, and whether the config says anything
  // of it: budget, breaker or retryThrottling.
  const GuardPolicy& guard() const { return guard_; }
  bool sets_guard() const { return sets_guard_; }

  // `retryGuard.layerName`; "" if there is none.
  const std::string& layer_name() const { return layer_name_; }

  // What was accepted but is worth telling: "methodConfig[0].retryPolicy.
  // maxAttempts: 7 is taken as 5; …". Each with its path.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // The config for gRPC core: the same meaning, spelt so that every core since
  // 1.51 takes it (status codes as upper-case names, decimal point in
  // tokenRatio). What is not ours is passed on untouched.
  const std::string& core_json() const { return core_json_; }

  // The names that have a policy: "/pkg.Service/Method", "/pkg.Service/", "".
  std::vector<std::string> names() const;

 private:
  friend class ServiceConfigParser;

  std::vector<MethodPolicy> policies_;
  absl::flat_hash_map<std::string, int> by_method_;   // "/pkg.Service/Method"
  absl::flat_hash_map<std::string, int> by_service_;  // "/pkg.Service/"
  int default_ = -1;                                  // index, or none
  MethodPolicy built_in_;
  GuardPolicy guard_;
  bool sets_guard_ = false;
  std::string layer_name_;
  std::vector<std::string> warnings_;
  std::string core_json_;
};

// "" is the default config. Strict inside retryPolicy, retryThrottling and
// retryGuard: an unknown key (with the likely one), a duplicate, a wrong type
// and a value out of range are errors; elsewhere unknown keys are gRPC's
// business. All errors come at once, in one INVALID_ARGUMENT, a line each:
//   methodConfig[1].retryPolicy.maxBackoff: "10" is no duration; write "10s"
RETRY_GUARD_EXPORT absl::StatusOr<std::shared_ptr<const ServiceConfig>>
ParseServiceConfig(std::string_view json);

}  // namespace retry_guard

#endif  // RETRY_GUARD_CONFIG_SERVICE_CONFIG_H_
