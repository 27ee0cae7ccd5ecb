#include "retry_guard/call/early_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "retry_guard/testing/manual_clock.h"
#include "tests/unit/call/fake_batch.h"

namespace retry_guard::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class EarlyBatchesTest : public ::testing::Test {
 protected:
  absl::Time In(absl::Duration time) const { return clock_->Now() + time; }

  const std::shared_ptr<testing::ManualClock> clock_ =
      std::make_shared<testing::ManualClock>();
  const std::shared_ptr<EarlyBatches> early_ =
      std::make_shared<EarlyBatches>(clock_);
  FakeBatch one_;
  FakeBatch two_;
};

TEST_F(EarlyBatchesTest, AreGivenToTheCallThatStarts) {
  EXPECT_TRUE(early_->Hold(&one_, absl::InfiniteFuture()));
  EXPECT_TRUE(early_->Hold(&two_, absl::InfiniteFuture()));
  EXPECT_THAT(early_->Take(), ElementsAre(&one_, &two_));
  EXPECT_THAT(early_->Take(), IsEmpty());
  EXPECT_EQ(one_.proceeded(), 0);  // it is the call's to let it go on
}

TEST_F(EarlyBatchesTest, OfACallThatStartsLeaveNoTimer) {
  EXPECT_TRUE(early_->Hold(&one_, In(absl::Seconds(1))));
  EXPECT_TRUE(early_->Hold(&two_, In(absl::Seconds(1))));
  EXPECT_EQ(clock_->pending_timers(), 1);
  early_->Take();
  EXPECT_EQ(clock_->pending_timers(), 0);
  clock_->Advance(absl::Seconds(2));
  EXPECT_EQ(one_.proceeded(), 0);
}

TEST_F(EarlyBatchesTest, WithoutADeadlineNeedNoTimer) {
  EXPECT_TRUE(early_->Hold(&one_, absl::InfiniteFuture()));
  EXPECT_EQ(clock_->pending_timers(), 0);
}

TEST_F(EarlyBatchesTest, GoOnWhenTheDeadlinePasses) {
  EXPECT_TRUE(early_->Hold(&one_, In(absl::Seconds(1))));
  clock_->Advance(absl::Milliseconds(999));
  EXPECT_EQ(one_.proceeded(), 0);
  clock_->Advance(absl::Milliseconds(1));
  EXPECT_EQ(one_.proceeded(), 1);
  EXPECT_THAT(early_->Take(), IsEmpty());
}

TEST_F(EarlyBatchesTest, ThatComeAfterTheDeadlineAreNotHeld) {
  EXPECT_TRUE(early_->Hold(&one_, In(absl::Seconds(1))));
  clock_->Advance(absl::Seconds(1));
  EXPECT_FALSE(early_->Hold(&two_, In(absl::Seconds(-1))));
}

TEST_F(EarlyBatchesTest, OfACancelledCallGoOnElsewhere) {
  EXPECT_TRUE(early_->Hold(&one_, absl::InfiniteFuture()));
  const std::thread::id canceller = std::this_thread::get_id();
  std::thread::id proceeder = canceller;
  one_.OnProceed([&] { proceeder = std::this_thread::get_id(); });
  early_->ReleaseSoon();
  EXPECT_FALSE(early_->Hold(&two_, absl::InfiniteFuture()));
  clock_->Advance(absl::ZeroDuration());
  EXPECT_TRUE(one_.AwaitProceeded());
  EXPECT_EQ(one_.proceeded(), 1);
  EXPECT_NE(proceeder, canceller);
}

TEST_F(EarlyBatchesTest, AreNotNeededWhereNoneWasHeld) {
  early_->ReleaseSoon();
  EXPECT_EQ(clock_->pending_timers(), 0);
}

}  // namespace
}  // namespace retry_guard::internal
