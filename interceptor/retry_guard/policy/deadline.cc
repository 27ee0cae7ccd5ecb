#include "retry_guard/policy/deadline.h"

namespace retry_guard {

bool RetryFits(absl::Duration delay, absl::Duration expected,
               absl::Duration remaining) {
  return delay + expected <= remaining;
}

}  // namespace retry_guard
