// The token bucket of gRFC A6, "Throttling Retry Attempts and Hedged RPCs".

#ifndef RETRY_GUARD_POLICY_THROTTLE_H_
#define RETRY_GUARD_POLICY_THROTTLE_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "retry_guard/policy/export.h"
#include "retry_guard/policy/method_policy.h"
#include "retry_guard/policy/striped.h"

namespace retry_guard {

// Starts full. Thread-safe, lock-free: level and parameters share one word, so
// that a change of parameters and a count never mix. In thousandths of a token;
// up to 1048575 of them.
class RETRY_GUARD_EXPORT Throttle {
 public:
  explicit Throttle(const std::optional<ThrottlePolicy>& policy);

  void RecordSuccess();  // adds milli_token_ratio; writes nothing while full
  void RecordFailure();  // costs a token

  // While strictly more than half is left; always without a policy.
  bool AllowsRetry() const;

  std::optional<int64_t> milli_tokens() const;

  // Keeps the fill fraction, rounded down; a first policy starts full.
  void Reconfigure(const std::optional<ThrottlePolicy>& policy);

 private:
  alignas(kCacheLine) std::atomic<uint64_t> word_;
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_THROTTLE_H_
