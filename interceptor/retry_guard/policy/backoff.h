// How long to wait before the n-th retry (gRFC A6, "Exponential Backoff", with
// the jitters that the field has names for).
//
//   BackoffLadder ladder;                        // one per call
//   absl::Duration wait = ladder.Next(policy, random.Unit());
//
// Whether to retry at all is somebody else's question.

#ifndef RETRY_GUARD_POLICY_BACKOFF_H_
#define RETRY_GUARD_POLICY_BACKOFF_H_

#include "absl/time/time.h"
#include "retry_guard/policy/export.h"

namespace retry_guard {

// With c the ceiling of the n-th retry:
enum class Jitter {
  kFull,          // U[0, c]: the default; spreads a herd best
  kEqual,         // c/2 + U[0, c/2]
  kDecorrelated,  // min(max, U[initial, 3 * previous delay])
  kProportional,  // c * U[0.8, 1.2]: as gRFC A6 has it since 2024
  kNone,          // c
};

struct BackoffPolicy {
  absl::Duration initial = absl::Milliseconds(100);  // > 0
  absl::Duration max = absl::Seconds(10);            // >= initial
  double multiplier = 2;                             // > 0, finite
  Jitter jitter = Jitter::kFull;
};

// min(max, initial * multiplier^(retry - 1)), `retry` counting from 1. Never
// overflows: an exponent of any size ends at `max` (or, with a multiplier
// below 1, at zero).
RETRY_GUARD_EXPORT absl::Duration BackoffCeiling(const BackoffPolicy& policy,
                                                 int retry);

// The delay before retry number `retry` (from 1). `previous` is the delay
// before the retry before this one (ignored unless decorrelated; taken as
// `initial` for the first). `unit` is uniform in [0, 1).
RETRY_GUARD_EXPORT absl::Duration BackoffDelay(const BackoffPolicy& policy,
                                               int retry,
                                               absl::Duration previous,
                                               double unit);

// A call's place on the ladder. One per call; not thread-safe.
class RETRY_GUARD_EXPORT BackoffLadder {
 public:
  // The next delay; climbs one rung.
  absl::Duration Next(const BackoffPolicy& policy, double unit);

  // Back to the first rung: after a delay that the server asked for.
  void Restart();

 private:
  int retry_ = 0;
  absl::Duration previous_ = absl::ZeroDuration();
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_BACKOFF_H_
