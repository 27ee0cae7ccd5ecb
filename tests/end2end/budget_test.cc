// The retry budget: however many calls fail, retries are few.

#include <deque>
#include <memory>

#include "absl/strings/str_cat.h"
#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::ElementsAre;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;

class BudgetTest : public EndToEndTest {
 protected:
  // So many calls at once, all failing at the same moment.
  void FailTogether(int count) {
    server_.SetScript({Hold(Unavailable().status)});
    std::deque<grpc::ClientContext> contexts;
    std::deque<StartedCall> calls;
    for (int i = 0; i < count; ++i) {
      contexts.emplace_back();
      calls.emplace_back(GetParam(), channel_, &contexts.back(), "hi");
    }
    ASSERT_TRUE(server_.AwaitCalls(count));
    server_.Release();
    for (StartedCall& call : calls) {
      EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
    }
  }
};
RETRY_GUARD_IN_EVERY_STYLE(BudgetTest);

TEST_P(BudgetTest, WithoutATokenTheAnswerIsReturnedAtOnce) {
  server_.SetScript({Unavailable("busy")});
  MakeChannel(Policy(5).NoBreaker().Budget(
      "\"ratio\": 0, \"minRetries\": 2, \"window\": \"1000s\""));
  const CallResult result = CallUnary();
  EXPECT_EQ(result.status.error_message(), "busy");
  EXPECT_EQ(server_.calls(), 3);
  EXPECT_THAT(
      seen_->decisions(),
      ElementsAre(Retries(), Retries(), Returns(Reason::kBudgetExhausted)));
  EXPECT_EQ(Snapshot().budget_left, 0);
  EXPECT_EQ(Snapshot().refusals.at(Reason::kBudgetExhausted), 1);
}

TEST_P(BudgetTest, ALoneCallGetsItsRetry) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(2));
  EXPECT_TRUE(CallUnary().status.ok());
}

// Charged when decided, not when sent: none of them slips through.
TEST_P(BudgetTest, TwoHundredFailuresAtOnceCannotPassItTogether) {
  MakeChannel(Policy(4).NoBreaker().Budget(
      "\"ratio\": 0.1, \"minRetries\": 10, \"window\": \"1000s\""));
  FailTogether(200);
  EXPECT_EQ(server_.calls(), 230);
  const GuardSnapshot snapshot = Snapshot();
  EXPECT_EQ(snapshot.calls, 200);
  EXPECT_EQ(snapshot.retries, 30);
  EXPECT_EQ(snapshot.budget_left, 0);
}

TEST_P(BudgetTest, TwoCallsAtOnceBothGetTheirRetries) {
  MakeChannel(Policy(4));
  FailTogether(2);
  EXPECT_EQ(server_.calls(), 8);
}

TEST_P(BudgetTest, RefillsWithTime) {
  const auto clock = UseManualClock();
  server_.SetScript({Unavailable()});
  MakeChannel(
      Policy(2)
          .NoBreaker()
          .Guard("\"jitter\": \"FULL\"")
          .Budget("\"ratio\": 0, \"minRetries\": 1, \"window\": \"10s\""));
  const auto call = [&] {
    grpc::ClientContext context;
    StartedCall started = StartUnary(&context);
    // The retry, if it is granted, waits for the clock.
    while (!started.done() && !clock->AwaitTimers(1, absl::Milliseconds(1))) {
    }
    clock->Advance(absl::Milliseconds(1));
    return started.Await().error_code();
  };
  call();
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Returns(Reason::kAttemptsExhausted)));
  seen_->Clear();
  call();
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kBudgetExhausted)));
  seen_->Clear();
  clock->Advance(absl::Seconds(11));
  EXPECT_EQ(Snapshot().budget_left, 1);
  call();
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Returns(Reason::kAttemptsExhausted)));
}

TEST_P(BudgetTest, TheFlatCapHoldsAsWell) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(5).NoBreaker().Budget(
      "\"ratio\": 1, \"minRetries\": 100, \"maxRetries\": 1"));
  CallUnary();
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Returns(Reason::kBudgetExhausted)));
}

TEST_P(BudgetTest, IsSharedByTheChannelsOfAGuard) {
  server_.SetScript({Unavailable()});
  const Policy policy = Policy(2).NoBreaker().Budget(
      "\"ratio\": 0, \"minRetries\": 1, \"window\": \"1000s\"");
  MakeChannel(policy);
  CallUnary();
  MakeChannel(policy);
  seen_->Clear();
  CallUnary();
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kBudgetExhausted)));
}

TEST_P(BudgetTest, CallsThatWereNeverSentEarnNothing) {
  MakeChannel(Policy(2).Budget("\"ratio\": 1, \"minRetries\": 0"));
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext context;
    context.TryCancel();
    CallUnary(&context);
  }
  EXPECT_EQ(Snapshot().budget_left, 0);
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_EQ(Snapshot().budget_left, 1);
}

// gRFC A6: strictly above half, one token per failure, tokenRatio back per
// success.
TEST_P(BudgetTest, TheThrottleOfTheServiceConfigApplies) {
  MakeChannel(Policy(3).NoBreaker().Top(
      R"("retryThrottling": {"maxTokens": 4, "tokenRatio": 0.5})"));
  server_.SetScript({Unavailable()});
  CallUnary();  // 4 -> 3, retried -> 2: half
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Returns(Reason::kBudgetExhausted)));
  EXPECT_EQ(Snapshot().budget_left, 0);

  seen_->Clear();
  server_.SetScript({Fail(grpc::StatusCode::NOT_FOUND), Succeed()});
  CallUnary();  // costs nothing, earns nothing
  EXPECT_EQ(Snapshot().budget_left, 0);
  for (int i = 0; i < 3; ++i) CallUnary();  // -> 3.5
  EXPECT_GT(Snapshot().budget_left, 0);

  seen_->Clear();
  server_.SetScript({Unavailable(), Succeed()});
  EXPECT_TRUE(CallUnary().status.ok());  // -> 2.5, retried -> 3
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds()));
}

TEST_P(BudgetTest, AServerThatSaysStopCostsTheThrottleAToken) {
  MakeChannel(Policy(3).NoBreaker().Top(
      R"("retryThrottling": {"maxTokens": 2, "tokenRatio": 0.1})"));
  server_.SetScript({WithTrailing(Fail(grpc::StatusCode::NOT_FOUND),
                                  "grpc-retry-pushback-ms", "-1"),
                     Unavailable()});
  CallUnary();  // 2 -> 1: half
  seen_->Clear();
  CallUnary();
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kBudgetExhausted)));
}

}  // namespace
}  // namespace retry_guard::end2end
