// Totals of a run.

#ifndef RETRY_GUARD_TESTS_STRESS_REPORT_H_
#define RETRY_GUARD_TESTS_STRESS_REPORT_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "tests/stress/ledger.h"

namespace retry_guard::stress {

// Thread-safe.
class Report {
 public:
  void Count(const Plan& plan, const Result& result, int attempts);
  int64_t calls() const { return calls_; }
  void Print() const;

 private:
  static constexpr int kStyles = 8;
  static constexpr int kCodes = 18;  // and dropped ones, last
  std::atomic<int64_t> calls_{0};
  std::atomic<int64_t> attempts_{0};
  std::atomic<int64_t> retried_{0};
  std::array<std::array<std::atomic<int64_t>, kStyles>, kShapes> styles_ = {};
  std::array<std::atomic<int64_t>, kRoutes> routes_ = {};
  std::array<std::atomic<int64_t>, kCodes> outcomes_ = {};
};

// Bytes of the heap that are in use; 0 where a sanitizer has its own.
int64_t HeapInUse();

}  // namespace retry_guard::stress

#endif  // RETRY_GUARD_TESTS_STRESS_REPORT_H_
