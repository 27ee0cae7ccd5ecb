// The circuit breaker, to the nanosecond.

#include <memory>
#include <optional>
#include <stdexcept>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "retry_guard/rpc_status.pb.h"
#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Lt;
using testing::OfAttempt;
using testing::RecordedAttempt;
using testing::RecordedBreakerChange;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;

constexpr absl::Duration kTick = absl::Nanoseconds(1);

auto Change(BreakerState from, BreakerState to) {
  return AllOf(Field(&RecordedBreakerChange::from, from),
               Field(&RecordedBreakerChange::to, to));
}
const auto kOpens = Change(BreakerState::kClosed, BreakerState::kOpen);
const auto kProbes = Change(BreakerState::kOpen, BreakerState::kHalfOpen);
const auto kCloses = Change(BreakerState::kHalfOpen, BreakerState::kClosed);
const auto kReopens = Change(BreakerState::kHalfOpen, BreakerState::kOpen);

// How long the caller is told to stay away.
absl::Duration RetryDelay(const grpc::Status& status) {
  wire::RpcStatus details;
  wire::RetryInfo info;
  if (!details.ParseFromString(status.error_details()) ||
      details.details_size() != 1 ||
      details.details(0).type_url() !=
          "type.googleapis.com/google.rpc.RetryInfo" ||
      !info.ParseFromString(details.details(0).value())) {
    return absl::InfiniteDuration();
  }
  EXPECT_EQ(details.code(), status.error_code());
  return absl::Seconds(info.retry_delay().seconds()) +
         absl::Nanoseconds(info.retry_delay().nanos());
}

// Opens after two failures in a row, for one second, then two, then four.
class BreakerTest : public EndToEndTest {
 protected:
  static constexpr char kBreaker[] =
      R"("failureRate": 0, "consecutiveFailures": 2, "openFor": "1s",
         "maxOpenFor": "4s")";

  void Make(Policy policy = Policy(2)) {
    clock_ = UseManualClock();
    MakeChannel(policy.Guard("\"maxAttempts\": 1").Breaker(kBreaker));
  }

  void Trip() {
    server_.SetScriptFor("trip", {Unavailable()});
    for (int i = 0; i < 2; ++i) CallText("trip");
    ASSERT_EQ(Snapshot().breaker_state, BreakerState::kOpen);
  }

  // One refused call; how long it was told to wait.
  absl::Duration Refused() {
    const int before = server_.calls();
    const CallResult result = CallUnary();
    EXPECT_EQ(result.status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(server_.calls(), before);
    return RetryDelay(result.status);
  }

  // Opens it, and waits until a probe is due.
  void TripAndWait() {
    Trip();
    clock_->Advance(Refused());
    seen_->Clear();
  }

  std::shared_ptr<testing::ManualClock> clock_;
};
RETRY_GUARD_IN_EVERY_STYLE(BreakerTest);

TEST_P(BreakerTest, OpensAndLetsOneProbeByAndClosesAgain) {
  Make();
  Trip();
  EXPECT_THAT(seen_->breaker_changes(), ElementsAre(kOpens));
  const absl::Duration open_for = Refused();
  EXPECT_THAT(open_for,
              AllOf(Ge(absl::Milliseconds(800)), Le(absl::Milliseconds(1200))));
  clock_->Advance(open_for - kTick);
  EXPECT_EQ(Refused(), absl::Milliseconds(1));  // at least that is said
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kOpen);
  clock_->Advance(kTick);

  server_.SetScriptFor("probe", {Hold()});
  grpc::ClientContext context;
  StartedCall probe = StartUnary(&context, "probe");
  ASSERT_TRUE(server_.AwaitCalls(3));
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kHalfOpen);
  EXPECT_EQ(Refused(), absl::Seconds(1));  // the slot is taken for openFor
  server_.Release();
  EXPECT_TRUE(probe.Await().ok());
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_THAT(seen_->breaker_changes(), ElementsAre(kOpens, kProbes, kCloses));
  EXPECT_THAT(seen_->attempts(),
              ElementsAre(Field(&RecordedAttempt::probe, false),
                          Field(&RecordedAttempt::probe, false),
                          Field(&RecordedAttempt::probe, true),
                          Field(&RecordedAttempt::probe, false)));
}

TEST_P(BreakerTest, ARefusalSaysWhyAndSendsNothingAndCostsNothing) {
  Make();
  Trip();
  const GuardSnapshot before = Snapshot();
  seen_->Clear();
  grpc::ClientContext context;
  const CallResult result = CallUnary(&context);
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  const absl::Duration delay = RetryDelay(result.status);
  EXPECT_EQ(result.status.error_message(),
            absl::StrCat("retry_guard: the circuit breaker is open for ",
                         kUnaryMethod, "; next probe in ",
                         absl::ToInt64Milliseconds(
                             absl::Ceil(delay, absl::Milliseconds(1))),
                         " ms"));
  EXPECT_EQ(result.text, UntouchedReply(GetParam()));
  EXPECT_THAT(context.GetServerInitialMetadata(), IsEmpty());
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(AllOf(OfAttempt(0),
                                Returns(Reason::kBreakerOpen,
                                        absl::StatusCode::kUnavailable))));
  EXPECT_THAT(seen_->attempts(), IsEmpty());
  const GuardSnapshot after = Snapshot();
  EXPECT_EQ(after.calls, before.calls);
  EXPECT_EQ(after.attempts, before.attempts);
  EXPECT_EQ(after.budget_left, before.budget_left);
  EXPECT_EQ(after.refusals.at(Reason::kBreakerOpen),
            before.refusals.at(Reason::kBreakerOpen) + 1);
}

TEST_P(BreakerTest, AFailedProbeOpensItForTwiceAsLongUpToTheCap) {
  Make();
  TripAndWait();
  server_.SetScriptFor("probe", {Unavailable()});
  for (const double seconds : {2., 4., 4.}) {
    EXPECT_EQ(CallText("probe").status.error_code(),
              grpc::StatusCode::UNAVAILABLE);
    const absl::Duration open_for = Refused();
    EXPECT_THAT(open_for, AllOf(Ge(absl::Seconds(0.8 * seconds)),
                                Le(absl::Seconds(1.2 * seconds))));
    clock_->Advance(open_for);
  }
  EXPECT_THAT(
      seen_->breaker_changes(),
      ElementsAre(kProbes, kReopens, kProbes, kReopens, kProbes, kReopens));
}

TEST_P(BreakerTest, AProbeIsNeverRetried) {
  clock_ = UseManualClock();
  MakeChannel(Policy(4).Breaker(kBreaker));
  server_.SetScriptFor("trip", {Unavailable()});
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context, "trip");
  ASSERT_TRUE(clock_->AwaitTimers(1));
  clock_->Advance(absl::Milliseconds(1));
  call.Await();
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Returns(Reason::kBreakerOpen)));
  clock_->Advance(Refused());
  seen_->Clear();
  CallText("trip");
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(AllOf(OfAttempt(1), Returns(Reason::kBreakerOpen))));
}

TEST_P(BreakerTest, ARetryThatWaitsWhileItOpensReturnsTheLastAnswer) {
  clock_ = UseManualClock();
  MakeChannel(Policy(4).Backoff("0.500s").Breaker(kBreaker));
  server_.SetScriptFor("waits", {Unavailable("mine"), Succeed()});
  server_.SetScriptFor("other", {Unavailable()});
  grpc::ClientContext context;
  StartedCall waits = StartUnary(&context, "waits");
  ASSERT_TRUE(clock_->AwaitTimers(1));
  EXPECT_EQ(CallText("other").status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  ASSERT_EQ(Snapshot().breaker_state, BreakerState::kOpen);
  EXPECT_EQ(Snapshot().budget_left, 9);
  clock_->Advance(absl::Milliseconds(500));
  EXPECT_EQ(waits.Await().error_message(), "mine");
  EXPECT_EQ(Snapshot().budget_left, 10);
  EXPECT_EQ(server_.calls(), 2);
  EXPECT_THAT(seen_->decisions().back(),
              AllOf(OfAttempt(1), Returns(Reason::kBreakerOpen,
                                          absl::StatusCode::kUnavailable)));
}

TEST_P(BreakerTest, ACancelledProbeFreesItsSlotAtOnce) {
  Make();
  TripAndWait();
  server_.SetScriptFor("probe", {Hold()});
  grpc::ClientContext context;
  StartedCall probe = StartUnary(&context, "probe");
  ASSERT_TRUE(server_.AwaitCalls(3));
  context.TryCancel();
  EXPECT_EQ(probe.Await().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kHalfOpen);
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_THAT(seen_->breaker_changes(), ElementsAre(kProbes, kCloses));
}

TEST_P(BreakerTest, AProbeThatTheServerCancelsFreesItsSlotAtOnce) {
  Make();
  TripAndWait();
  server_.SetScriptFor("probe", {Fail(grpc::StatusCode::CANCELLED)});
  EXPECT_EQ(CallText("probe").status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kHalfOpen);
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_THAT(seen_->breaker_changes(), ElementsAre(kProbes, kCloses));
}

TEST_P(BreakerTest, AnyAnswerThatIsNoFailureClosesIt) {
  Make();
  TripAndWait();
  server_.SetScriptFor("probe", {Fail(grpc::StatusCode::NOT_FOUND)});
  EXPECT_EQ(CallText("probe").status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
}

TEST_P(BreakerTest, AProbeCancelledBeforeItStartsTakesNoSlot) {
  Make();
  TripAndWait();
  grpc::ClientContext context;
  context.TryCancel();
  EXPECT_EQ(CallUnary(&context).status.error_code(),
            grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
}

class Thrower final : public Observer {
 public:
  void OnDecision(const Decision&) override { Throw(); }
  void OnAttempt(const AttemptReport&) override { Throw(); }
  void OnBreakerStateChange(const BreakerStateChange&) override { Throw(); }
  void OnPolicyChange(const PolicyChange&) override { Throw(); }

 private:
  [[noreturn]] void Throw() { throw std::runtime_error("an observer's bug"); }
};

TEST_P(BreakerTest, AnObserverThatThrowsLeaksNoSlot) {
  options_.observers = {std::make_shared<Thrower>()};
  Make();
  TripAndWait();
  server_.SetScriptFor("probe", {Fail(grpc::StatusCode::CANCELLED)});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(CallText("probe").status.error_code(),
              grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_THAT(seen_->breaker_changes(), ElementsAre(kProbes, kCloses));
}

TEST_P(BreakerTest, AProbeThatHangsLosesItsSlot) {
  Make();
  TripAndWait();
  server_.SetScriptFor("hangs", {Hold(Unavailable("late").status)});
  grpc::ClientContext context;
  StartedCall hangs = StartUnary(&context, "hangs");
  ASSERT_TRUE(server_.AwaitCalls(3));
  clock_->Advance(absl::Seconds(1) - kTick);
  EXPECT_EQ(Refused(), absl::Milliseconds(1));
  clock_->Advance(kTick);
  server_.SetScriptFor("fresh", {Hold()});
  grpc::ClientContext fresh_context;
  StartedCall fresh = StartUnary(&fresh_context, "fresh");
  ASSERT_TRUE(server_.AwaitCalls(4));
  // What the lost one says no longer counts.
  server_.Release("hangs");
  EXPECT_EQ(hangs.Await().error_message(), "late");
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kHalfOpen);
  server_.Release("fresh");
  EXPECT_TRUE(fresh.Await().ok());
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
}

TEST_P(BreakerTest, LateAnswersOfEarlierCallsDecideNothing) {
  Make();
  server_.SetScriptFor("old ok", {Hold()});
  server_.SetScriptFor("old failure", {Hold(Unavailable().status)});
  grpc::ClientContext ok_context;
  grpc::ClientContext failure_context;
  StartedCall old_ok = StartUnary(&ok_context, "old ok");
  StartedCall old_failure = StartUnary(&failure_context, "old failure");
  ASSERT_TRUE(server_.AwaitCalls(2));
  TripAndWait();

  server_.SetScriptFor("probe", {Hold()});
  grpc::ClientContext context;
  StartedCall probe = StartUnary(&context, "probe");
  ASSERT_TRUE(server_.AwaitCalls(5));
  server_.Release("old ok");
  EXPECT_TRUE(old_ok.Await().ok());
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kHalfOpen);
  server_.Release("old failure");
  EXPECT_EQ(old_failure.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kHalfOpen);
  EXPECT_THAT(seen_->breaker_changes(), ElementsAre(kProbes));
  EXPECT_EQ(Snapshot().stale_breaker_results, 2);
  server_.Release("probe");
  EXPECT_TRUE(probe.Await().ok());
  EXPECT_THAT(seen_->breaker_changes(), ElementsAre(kProbes, kCloses));
}

TEST_P(BreakerTest, ByRateItOpensOnceEnoughRequestsHaveFailed) {
  clock_ = UseManualClock();
  MakeChannel(Policy(2)
                  .Guard("\"maxAttempts\": 1")
                  .Breaker("\"minRequests\": 4, \"failureRate\": 0.5"));
  server_.SetScript({Unavailable(), Unavailable(), Succeed(), Unavailable()});
  for (int i = 0; i < 3; ++i) CallUnary();
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
  CallUnary();
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kOpen);
}

TEST_P(BreakerTest, OtherCodesThanTheListedAreNoFailures) {
  Make();
  server_.SetScript({Fail(grpc::StatusCode::INTERNAL)});
  for (int i = 0; i < 5; ++i) CallUnary();
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
}

// A proxy's limit is no failure of the backend.
TEST_P(BreakerTest, AnHttp429IsNoFailureOfTheServer) {
  Make();
  server_.SetScript({Unavailable("Received http2 header with status: 429")});
  for (int i = 0; i < 5; ++i) CallUnary();
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
}

TEST_P(BreakerTest, ADeadlineTooShortForAnAnswerIsNoFailureOfTheServer) {
  Make();
  server_.SetScriptFor("slow", {Hold()});
  {
    grpc::ClientContext context;
    StartedCall slow = StartUnary(&context, "slow");
    ASSERT_TRUE(server_.AwaitCalls(1));
    clock_->Advance(absl::Seconds(50));
    server_.Release("slow");
    ASSERT_TRUE(slow.Await().ok());
  }
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(20));
    EXPECT_EQ(CallUnary(&context, "slow").status.error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
}

TEST_P(BreakerTest, AMethodMayHaveOneOfItsOwn) {
  Make(Policy(2).Guard("\"breaker\": \"OWN\""));
  server_.SetScript({Unavailable(), Unavailable(), Succeed()});
  CallUnary();
  CallUnary();
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(CallMethod("Idempotent").status.ok());
  const GuardSnapshot snapshot = Snapshot();
  EXPECT_EQ(snapshot.breaker_state, BreakerState::kClosed);
  EXPECT_EQ(snapshot.own_breakers.at(kUnaryMethod), BreakerState::kOpen);
  EXPECT_THAT(seen_->breaker_changes(),
              ElementsAre(AllOf(kOpens, Field(&RecordedBreakerChange::method,
                                              kUnaryMethod))));
}

TEST_P(BreakerTest, SwitchedOffItNeverOpens) {
  MakeChannel(Policy(2)
                  .Guard("\"maxAttempts\": 1")
                  .Breaker("\"failureRate\": 0, \"consecutiveFailures\": 0"));
  server_.SetScript({Unavailable()});
  for (int i = 0; i < 40; ++i) CallUnary();
  EXPECT_EQ(server_.calls(), 40);
}

TEST_P(BreakerTest, ItWorksOnWithRetriesSwitchedOff) {
  Make();
  options_.guard->SetRetriesEnabled(false);
  Trip();
  Refused();
}

}  // namespace
}  // namespace retry_guard::end2end
