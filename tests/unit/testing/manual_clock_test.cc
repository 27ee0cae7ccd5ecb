#include "retry_guard/testing/manual_clock.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "retry_guard/policy/mutex.h"

namespace retry_guard::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What the callbacks of timers were told, in their order.
class Log {
 public:
  auto Note(std::string name) {
    return [this, name = std::move(name)](bool fired) {
      MutexLock lock(mu_);
      lines_.push_back(name + (fired ? " fired" : " cancelled"));
      added_.NotifyAll();
    };
  }
  std::vector<std::string> lines() const {
    MutexLock lock(mu_);
    return lines_;
  }
  // Until there are so many.
  std::vector<std::string> Await(size_t count) const {
    MutexLock lock(mu_);
    added_.WaitFor(mu_, absl::Seconds(20),
                   [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
                     return lines_.size() >= count;
                   });
    return lines_;
  }

 private:
  mutable Mutex mu_;
  mutable CondVar added_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mu_);
};

class ManualClockTest : public ::testing::Test {
 protected:
  std::shared_ptr<Clock::Timer> StartTimer(absl::Duration in,
                                           const std::string& name) {
    return clock_->StartTimer(clock_->Now() + in, log_.Note(name));
  }

  Log log_;
  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
};

TEST_F(ManualClockTest, MovesOnlyByHand) {
  const absl::Time start = clock_->Now();
  EXPECT_EQ(start, absl::FromUnixSeconds(1'000'000'000));
  clock_->Advance(absl::Milliseconds(1500));
  EXPECT_EQ(clock_->Now(), start + absl::Milliseconds(1500));
  EXPECT_EQ(clock_->WallNow(), clock_->Now());
}

TEST_F(ManualClockTest, RunsWhatIsDueInTheOrderOfItsTimes) {
  StartTimer(absl::Seconds(3), "third");
  StartTimer(absl::Seconds(1), "first");
  StartTimer(absl::Seconds(2), "second");
  StartTimer(absl::Seconds(4), "fourth");
  EXPECT_EQ(clock_->next_timer(), clock_->Now() + absl::Seconds(1));
  clock_->Advance(absl::Seconds(3));
  EXPECT_THAT(log_.lines(),
              ElementsAre("first fired", "second fired", "third fired"));
  EXPECT_EQ(clock_->pending_timers(), 1);
}

TEST_F(ManualClockTest, RunsCallbacksOnAThreadOfItsOwn) {
  std::thread::id ran_on;
  clock_->StartTimer(clock_->Now() + absl::Seconds(1), [&](bool /*fired*/) {
    ran_on = std::this_thread::get_id();
  });
  clock_->Advance(absl::Seconds(1));
  EXPECT_NE(ran_on, std::thread::id());
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

TEST_F(ManualClockTest, AdvanceReturnsWhenTheCallbacksHave) {
  bool ended = false;
  clock_->StartTimer(clock_->Now() + absl::Seconds(1), [&](bool /*fired*/) {
    // What a callback starts and is due at once is waited for, too.
    clock_->StartTimer(clock_->Now(), [&](bool /*fired*/) { ended = true; });
  });
  clock_->Advance(absl::Seconds(1));
  EXPECT_TRUE(ended);
}

TEST_F(ManualClockTest, ATimerOfThePastFiresAtOnce) {
  StartTimer(-absl::Seconds(1), "late");
  EXPECT_THAT(log_.Await(1), ElementsAre("late fired"));
}

TEST_F(ManualClockTest, ACancelledTimerIsToldSoOnceAndDoesNotFire) {
  const auto timer = StartTimer(absl::Seconds(1), "one");
  timer->Cancel();
  timer->Cancel();
  clock_->Advance(absl::Seconds(2));
  timer->Cancel();
  EXPECT_THAT(log_.lines(), ElementsAre("one cancelled"));
}

TEST_F(ManualClockTest, AnInfiniteTimerEndsOnlyByCancel) {
  const auto timer =
      clock_->StartTimer(absl::InfiniteFuture(), log_.Note("endless"));
  clock_->Advance(absl::Hours(1'000'000));
  EXPECT_THAT(log_.lines(), IsEmpty());
  timer->Cancel();
  EXPECT_THAT(log_.Await(1), ElementsAre("endless cancelled"));
}

TEST_F(ManualClockTest, ATimerOutlivesItsHandle) {
  StartTimer(absl::Seconds(1), "dropped").reset();
  clock_->Advance(absl::Seconds(1));
  EXPECT_THAT(log_.lines(), ElementsAre("dropped fired"));
}

TEST_F(ManualClockTest, ItsEndCancelsWhatWaits) {
  const auto timer = StartTimer(absl::Seconds(1), "waiting");
  clock_.reset();
  EXPECT_THAT(log_.lines(), ElementsAre("waiting cancelled"));
}

TEST_F(ManualClockTest, AwaitTimersSeesThoseThatOthersStart) {
  std::thread other([this] { StartTimer(absl::Seconds(1), "other's"); });
  EXPECT_TRUE(clock_->AwaitTimers(1));
  other.join();
  EXPECT_FALSE(clock_->AwaitTimers(2, absl::ZeroDuration()));
}

}  // namespace
}  // namespace retry_guard::testing
