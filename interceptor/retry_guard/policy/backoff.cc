#include "retry_guard/policy/backoff.h"

#include <algorithm>
#include <cmath>

namespace retry_guard {

absl::Duration BackoffCeiling(const BackoffPolicy& policy, int retry) {
  const double factor = std::pow(policy.multiplier, std::max(retry, 1) - 1);
  // Compared as doubles before anything is made a duration: a double that is
  // too large becomes infinity, an integer would wrap round to a short wait.
  const double seconds = absl::ToDoubleSeconds(policy.initial) * factor;
  if (!(seconds < absl::ToDoubleSeconds(policy.max))) return policy.max;
  return std::min(policy.initial * factor, policy.max);
}

absl::Duration BackoffDelay(const BackoffPolicy& policy, int retry,
                            absl::Duration previous, double unit) {
  const absl::Duration ceiling = BackoffCeiling(policy, retry);
  switch (policy.jitter) {
    case Jitter::kFull:
      return ceiling * unit;
    case Jitter::kEqual:
      return ceiling / 2 + ceiling / 2 * unit;
    case Jitter::kDecorrelated: {
      if (retry <= 1) previous = policy.initial;
      const absl::Duration top = std::max(previous * 3, policy.initial);
      return std::min(policy.max,
                      policy.initial + (top - policy.initial) * unit);
    }
    case Jitter::kProportional:
      return ceiling * (0.8 + 0.4 * unit);
    case Jitter::kNone:
      return ceiling;
  }
  return ceiling;
}

absl::Duration BackoffLadder::Next(const BackoffPolicy& policy, double unit) {
  previous_ = BackoffDelay(policy, ++retry_, previous_, unit);
  return previous_;
}

void BackoffLadder::Restart() { *this = BackoffLadder(); }

}  // namespace retry_guard
