#include "retry_guard/policy/mutex.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace retry_guard {
namespace {

// Something that a thread waits for.
struct Shared {
  Mutex mu;
  CondVar changed;
  bool there ABSL_GUARDED_BY(mu) = false;

  void Bring() {
    MutexLock lock(mu);
    there = true;
    changed.NotifyAll();
  }
  bool WaitFor(absl::Duration timeout) {
    MutexLock lock(mu);
    return changed.WaitFor(
        mu, timeout,
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return there; });
  }
};

TEST(MutexTest, WaitsUntilSomebodyChangesWhatItGuards) {
  Shared shared;
  std::thread other([&shared] { shared.Bring(); });
  {
    MutexLock lock(shared.mu);
    while (!shared.there) shared.changed.Wait(shared.mu);
    EXPECT_TRUE(shared.there);
  }
  other.join();
}

TEST(MutexTest, WhatIsThereAlreadyIsNotWaitedFor) {
  Shared shared;
  shared.Bring();
  EXPECT_TRUE(shared.WaitFor(absl::ZeroDuration()));
}

TEST(MutexTest, GivesUpAfterTheTimeout) {
  Shared shared;
  EXPECT_FALSE(shared.WaitFor(absl::Milliseconds(1)));
  EXPECT_FALSE(shared.WaitFor(-absl::InfiniteDuration()));
}

TEST(MutexTest, EvenAnInfiniteTimeoutIsOne) {
  Shared shared;
  std::thread other([&shared] { shared.Bring(); });
  EXPECT_TRUE(shared.WaitFor(absl::InfiniteDuration()));
  other.join();
}

TEST(MutexTest, IsHeldAgainAfterAWaitAndFreeInTheEnd) {
  Shared shared;
  shared.WaitFor(absl::ZeroDuration());
  std::thread other([&shared] { shared.Bring(); });
  other.join();
  EXPECT_TRUE(shared.WaitFor(absl::ZeroDuration()));
}

}  // namespace
}  // namespace retry_guard
