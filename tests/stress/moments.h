// Cancels calls at moments that have nothing to do with what they are doing.

#ifndef RETRY_GUARD_TESTS_STRESS_MOMENTS_H_
#define RETRY_GUARD_TESTS_STRESS_MOMENTS_H_

#include <memory>
#include <queue>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "tests/stress/ledger.h"

namespace retry_guard::stress {

// A thread of its own. Thread-safe.
class Moments {
 public:
  Moments();
  ~Moments();

  void CancelAt(absl::Time when, std::weak_ptr<Record> record);

 private:
  struct Moment {
    absl::Time when;
    std::weak_ptr<Record> record;
    bool operator<(const Moment& other) const { return when > other.when; }
  };

  void Run();

  absl::Mutex mu_;
  absl::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::priority_queue<Moment> moments_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace retry_guard::stress

#endif  // RETRY_GUARD_TESTS_STRESS_MOMENTS_H_
