// The attempts of a unary call whose caller is blocked anyway: they and the
// waits between them happen on the caller's own thread, without a hop to
// another one. Cancellation alone comes from elsewhere.

#ifndef RETRY_GUARD_CALL_BLOCKING_ATTEMPTS_H_
#define RETRY_GUARD_CALL_BLOCKING_ATTEMPTS_H_

#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "retry_guard/call/call_core.h"
#include "retry_guard/call/delivery.h"
#include "retry_guard/call/interruption.h"
#include "retry_guard/call/unary_attempt.h"

namespace retry_guard::internal {

// Runs attempts until there is an answer. With `wait_until` the next one was
// decided to be a retry at that time; without, it is the first and has its
// permission.
Answer RunBlockingAttempts(const std::shared_ptr<CallCore>& core,
                           const std::shared_ptr<Interruption>& interruption,
                           const UnaryPlan& plan,
                           std::optional<absl::Time> wait_until);

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_BLOCKING_ATTEMPTS_H_
