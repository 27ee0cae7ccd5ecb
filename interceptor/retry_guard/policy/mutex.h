// A std::mutex that Clang's thread safety analysis can read.
//
// Not absl::Mutex: ThreadSanitizer does not see the locks of an Abseil that was
// built without it, and would report races where there are none.

#ifndef RETRY_GUARD_POLICY_MUTEX_H_
#define RETRY_GUARD_POLICY_MUTEX_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace retry_guard {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }

  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// To wait, in a loop, for what the mutex guards.
class CondVar {
 public:
  void Wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    changed_.wait(held);
    held.release();  // still locked, and the caller's to unlock
  }
  // Until `condition` holds, which is asked with the mutex held; false if it
  // does not even after `timeout`.
  template <typename Condition>
  bool WaitFor(Mutex& mutex, absl::Duration timeout, Condition condition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    // Longer ones would overflow.
    constexpr absl::Duration kForever = absl::Hours(24 * 365);
    const auto end = std::chrono::steady_clock::now() +
                     absl::ToChronoNanoseconds(
                         std::clamp(timeout, absl::ZeroDuration(), kForever));
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    const bool holds = changed_.wait_until(held, end, std::move(condition));
    held.release();
    return holds;
  }

  void NotifyAll() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_MUTEX_H_
