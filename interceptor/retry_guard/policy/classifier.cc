#include "retry_guard/policy/classifier.h"

namespace retry_guard {
namespace {

// gRPC ended the attempt by itself: the next one would end likewise.
bool MadeLocally(const Outcome& outcome) {
  if (outcome.event == TransportEvent::kTooLarge) return true;
  return !outcome.reached_a_peer &&
         (outcome.code == absl::StatusCode::kResourceExhausted ||
          outcome.code == absl::StatusCode::kCancelled);
}

}  // namespace

Repeat ClassifyRepeat(const MethodPolicy& policy, bool proto_idempotent,
                      bool key_travels) {
  switch (policy.idempotency) {
    case Idempotency::kIdempotent:
      return Repeat::kSafe;
    case Idempotency::kNonIdempotent:
      return Repeat::kUnsafe;
    case Idempotency::kFromProto:
      break;
  }
  return proto_idempotent || key_travels ? Repeat::kSafe : Repeat::kUnknown;
}

bool IsRetryable(const Outcome& outcome, const MethodPolicy& policy,
                 bool key_travels) {
  if (outcome.code == absl::StatusCode::kOk || MadeLocally(outcome)) {
    return false;
  }
  if (outcome.attempt_timed_out) return true;
  if (policy.retryable_codes.Contains(outcome.code)) return true;
  switch (outcome.code) {
    case absl::StatusCode::kResourceExhausted:
      return outcome.hint.consent();
    case absl::StatusCode::kAborted:
      // A twin of this very request is in flight at the server: same key,
      // later.
      return key_travels && outcome.hint.consent();
    default:
      return false;
  }
}

bool IsSafe(const Outcome& outcome, const MethodPolicy& policy, Repeat repeat) {
  if (repeat == Repeat::kSafe) return true;
  if (outcome.hint.consent()) return true;
  if (outcome.event == TransportEvent::kNeverConnected) return true;
  if (repeat == Repeat::kUnsafe) return false;
  // Strong, but no proof: HAProxy refuses so after a backend that had executed
  // the call died. Hence never for kUnsafe.
  if (outcome.event == TransportEvent::kRefused) return true;
  return policy.has_retry_policy &&
         policy.retryable_codes.Contains(outcome.code);
}

}  // namespace retry_guard
