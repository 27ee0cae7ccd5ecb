#include "retry_guard/policy/striped.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace retry_guard {

size_t StripeCount() {
  static const size_t count = [] {
    const size_t wanted =
        std::min<size_t>(8, std::thread::hardware_concurrency());
    size_t power = 1;
    while (power < wanted) power *= 2;
    return power;
  }();
  return count;
}

size_t NextStripe() {
  static std::atomic<size_t> dealt{0};
  return dealt.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace retry_guard
