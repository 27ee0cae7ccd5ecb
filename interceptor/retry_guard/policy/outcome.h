// How one attempt ended: the word that classifier and decider read.

#ifndef RETRY_GUARD_POLICY_OUTCOME_H_
#define RETRY_GUARD_POLICY_OUTCOME_H_

#include "absl/status/status.h"
#include "retry_guard/policy/pushback.h"
#include "retry_guard/policy/transport_text.h"

namespace retry_guard {

struct Outcome {
  absl::StatusCode code = absl::StatusCode::kOk;  // sanitized: 0 to 16
  TransportEvent event = TransportEvent::kNone;
  // The attempt's peer() names a transport address: it got to a server or a
  // proxy. Without one no server has sent the code: RESOURCE_EXHAUSTED, say,
  // was made locally (a message larger than this side allows), although its
  // text is that of a remote one.
  bool reached_a_peer = true;
  // DEADLINE_EXCEEDED at or after the perAttemptTimeout and before the call's
  // deadline.
  bool attempt_timed_out = false;
  ServerHint hint;
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_OUTCOME_H_
