#include "retry_guard/testing/recording_observer.h"

#include <sstream>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "retry_guard/testing/matchers.h"

namespace retry_guard::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Not;

Decision ARetry() {
  Decision decision;
  decision.method = "/s/M";
  decision.attempt = 1;
  decision.verdict = Verdict::kRetry;
  decision.reason = Reason::kRetry;
  decision.code = absl::StatusCode::kUnavailable;
  decision.delay = absl::Milliseconds(40);
  return decision;
}

Decision AnEnd(Reason reason, absl::StatusCode code) {
  Decision decision;
  decision.method = "/s/M";
  decision.attempt = 2;
  decision.reason = reason;
  decision.code = code;
  return decision;
}

TEST(RecordingObserverTest, KeepsDecisionsInTheOrderInWhichTheyWereHeard) {
  RecordingObserver seen;
  seen.OnDecision(ARetry());
  seen.OnDecision(AnEnd(Reason::kSucceeded, absl::StatusCode::kOk));
  EXPECT_THAT(seen.decisions(), ElementsAre(Retries(), Succeeds()));
}

// What an observer hears are views.
TEST(RecordingObserverTest, ItsStringsAreItsOwn) {
  RecordingObserver seen;
  {
    const std::string method = "/a.service.with.a.long.name/Method";
    const std::string message = "a message that is long enough for the heap";
    Decision decision = ARetry();
    decision.method = method;
    decision.message = message;
    seen.OnDecision(decision);
  }
  EXPECT_THAT(
      seen.decisions(),
      ElementsAre(AllOf(Field(&RecordedDecision::method,
                              "/a.service.with.a.long.name/Method"),
                        Field(&RecordedDecision::message,
                              "a message that is long enough for the heap"))));
}

TEST(RecordingObserverTest, KeepsAttemptsAndChanges) {
  RecordingObserver seen;
  AttemptReport report;
  report.attempt = 3;
  report.probe = true;
  seen.OnAttempt(report);
  seen.OnBreakerStateChange(
      {"/s/M", BreakerState::kClosed, BreakerState::kOpen});
  PolicyChange change;
  change.kind = PolicyChange::Kind::kRefused;
  change.detail = "a field";
  seen.OnPolicyChange(change);
  ASSERT_EQ(seen.attempts().size(), 1);
  EXPECT_EQ(seen.attempts()[0].attempt, 3);
  EXPECT_TRUE(seen.attempts()[0].probe);
  ASSERT_EQ(seen.breaker_changes().size(), 1);
  EXPECT_EQ(seen.breaker_changes()[0].method, "/s/M");
  EXPECT_EQ(seen.breaker_changes()[0].to, BreakerState::kOpen);
  ASSERT_EQ(seen.policy_changes().size(), 1);
  EXPECT_EQ(seen.policy_changes()[0].kind, PolicyChange::Kind::kRefused);
  EXPECT_EQ(seen.policy_changes()[0].detail, "a field");
}

TEST(RecordingObserverTest, ClearForgetsEverything) {
  RecordingObserver seen;
  seen.OnDecision(ARetry());
  seen.OnAttempt(AttemptReport());
  seen.Clear();
  EXPECT_THAT(seen.decisions(), IsEmpty());
  EXPECT_THAT(seen.attempts(), IsEmpty());
  EXPECT_FALSE(seen.AwaitDecisions(1, absl::ZeroDuration()));
}

TEST(RecordingObserverTest, AwaitDecisionsSeesThoseOfOtherThreads) {
  RecordingObserver seen;
  std::thread other([&] { seen.OnDecision(ARetry()); });
  EXPECT_TRUE(seen.AwaitDecisions(1));
  other.join();
}

TEST(MatchersTest, TellDecisionsApart) {
  RecordingObserver seen;
  seen.OnDecision(ARetry());
  seen.OnDecision(
      AnEnd(Reason::kBudgetExhausted, absl::StatusCode::kUnavailable));
  const RecordedDecision retry = seen.decisions()[0];
  const RecordedDecision end = seen.decisions()[1];

  EXPECT_THAT(retry, AllOf(Retries(), OfAttempt(1)));
  EXPECT_THAT(retry, RetriesAfter(absl::Milliseconds(40)));
  EXPECT_THAT(retry, Not(RetriesAfter(absl::Milliseconds(41))));
  EXPECT_THAT(retry, Not(Returns(Reason::kRetry)));
  EXPECT_THAT(end, AllOf(Returns(Reason::kBudgetExhausted), OfAttempt(2)));
  EXPECT_THAT(
      end, Returns(Reason::kBudgetExhausted, absl::StatusCode::kUnavailable));
  EXPECT_THAT(
      end, Not(Returns(Reason::kBudgetExhausted, absl::StatusCode::kInternal)));
  EXPECT_THAT(end, Not(Returns(Reason::kDeadlineTooClose)));
  EXPECT_THAT(end, Not(Succeeds()));
}

// When a matcher fails, this is what a reader has.
TEST(RecordedDecisionTest, IsPrintedLikeTheDecisionThatItKeeps) {
  RecordingObserver seen;
  seen.OnDecision(ARetry());
  std::ostringstream kept;
  kept << seen.decisions()[0];
  std::ostringstream heard;
  heard << ARetry();
  EXPECT_EQ(kept.str(), heard.str());
}

}  // namespace
}  // namespace retry_guard::testing
