// Cache lines of one's own: two threads that count on one shared line run at a
// seventh of one thread's speed, on lines of their own at nearly twice it.

#ifndef RETRY_GUARD_POLICY_STRIPED_H_
#define RETRY_GUARD_POLICY_STRIPED_H_

#include <cstddef>

#include "retry_guard/policy/export.h"

namespace retry_guard {

inline constexpr size_t kCacheLine = 64;

// How many stripes are worth having on this machine: a power of two, 1 to 8.
RETRY_GUARD_EXPORT size_t StripeCount();

// Deals out 1, 2, 3, ...
RETRY_GUARD_EXPORT size_t NextStripe();

// A number that stays with the calling thread. Take it modulo StripeCount().
inline size_t ThreadStripe() {
  // Zero until dealt: a constant start value needs no guard on each access.
  thread_local size_t number = 0;
  if (number == 0) number = NextStripe();
  return number;
}

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_STRIPED_H_
