#include "retry_guard/call/hijack_gate.h"

#include <gtest/gtest.h>

#include "tests/unit/call/fake_batch.h"

namespace retry_guard::internal {
namespace {

TEST(HijackGateTest, HoldsBatchesUntilTheHijack) {
  HijackGate gate;
  FakeBatch start;
  FakeBatch one;
  FakeBatch two;
  gate.Pass(&one);
  gate.Pass(&two);
  EXPECT_EQ(one.proceeded(), 0);
  gate.Hijack(&start);
  EXPECT_TRUE(start.hijacked());
  EXPECT_EQ(start.proceeded(), 0);  // it comes again by itself
  EXPECT_EQ(one.proceeded(), 1);
  EXPECT_EQ(two.proceeded(), 1);
}

TEST(HijackGateTest, HoldsOneThatComesDuringTheHijack) {
  HijackGate gate;
  FakeBatch start;
  FakeBatch meanwhile;
  start.OnHijack([&] {
    gate.Pass(&meanwhile);
    EXPECT_EQ(meanwhile.proceeded(), 0);
  });
  gate.Hijack(&start);
  EXPECT_EQ(meanwhile.proceeded(), 1);
}

TEST(HijackGateTest, LetsEveryOneGoOnAfterwardsAndOnce) {
  HijackGate gate;
  FakeBatch start;
  FakeBatch before;
  FakeBatch after;
  gate.Pass(&before);
  gate.Hijack(&start);
  gate.Pass(&after);
  EXPECT_EQ(before.proceeded(), 1);
  EXPECT_EQ(after.proceeded(), 1);
}

TEST(HijackGateTest, OpenedItHoldsNothing) {
  HijackGate gate;
  gate.Open();
  FakeBatch batch;
  gate.Pass(&batch);
  EXPECT_EQ(batch.proceeded(), 1);
}

}  // namespace
}  // namespace retry_guard::internal
