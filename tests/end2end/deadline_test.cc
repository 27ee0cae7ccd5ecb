// Deadlines: a retry that cannot be of use is not made, and a bare
// DEADLINE_EXCEEDED never hides what the server has said.

#include <grpc/support/time.h>

#include "tests/end2end/fixture.h"

// Where gRPC has the time from; for its own tests, and ours.
extern gpr_timespec (*gpr_now_impl)(gpr_clock_type clock_type);

namespace retry_guard::end2end {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::Ge;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using testing::OfAttempt;
using testing::RecordedDecision;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;

std::chrono::system_clock::time_point In(absl::Duration time) {
  return std::chrono::system_clock::now() + absl::ToChronoNanoseconds(time);
}

class DeadlineTest : public EndToEndTest {
 protected:
  CallResult CallWithin(absl::Duration time, const std::string& text = "hi",
                        const std::string& method = "Unary") {
    grpc::ClientContext context;
    context.set_deadline(In(time));
    return CallUnary(&context, text, method);
  }
};
TEST_P(DeadlineTest, TimeoutsOfAttemptsDoNotHideWhatTheServerSaid) {
  server_.SetScript({Unavailable("busy"), Hold(), Hold()});
  MakeChannel(Policy(3).Guard(
      R"("perAttemptTimeout": "0.1s", "idempotency": "IDEMPOTENT")"));
  const grpc::Status status = CallUnary().status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("busy"));
}

RETRY_GUARD_IN_EVERY_STYLE(DeadlineTest);

TEST_P(DeadlineTest, ABackoffThatDoesNotFitIsRefusedAtOnceWithTheRealStatus) {
  server_.SetScript({Unavailable("busy"), Succeed()});
  MakeChannel(Policy(4).Backoff("100s"));
  const CallResult result = CallWithin(absl::Seconds(20));
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(result.status.error_message(), "busy");
  EXPECT_EQ(server_.calls(), 1);
  EXPECT_THAT(
      seen_->decisions(),
      ElementsAre(AllOf(
          Returns(Reason::kDeadlineTooClose, absl::StatusCode::kUnavailable),
          Field(&RecordedDecision::remaining, Gt(absl::Seconds(0))))));
  EXPECT_EQ(Snapshot().budget_left, 10);  // the refusal cost no token
}

TEST_P(DeadlineTest, AnAttemptThatWouldNotFitIsRefusedAtOnce) {
  server_.SetScript({Unavailable("busy"), Succeed()});
  MakeChannel(Policy(4).Guard("\"minAttemptTime\": \"100s\""));
  const CallResult result = CallWithin(absl::Seconds(20));
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server_.calls(), 1);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kDeadlineTooClose)));
}

TEST_P(DeadlineTest, TheTimeOfAnAttemptIsLearntFromThoseThatSucceed) {
  const auto clock = UseManualClock();
  MakeChannel(Policy(4));
  server_.SetScript({Hold()});
  {
    grpc::ClientContext context;
    StartedCall call = StartUnary(&context);
    ASSERT_TRUE(server_.AwaitCalls(1));
    clock->Advance(absl::Seconds(50));
    server_.Release();
    ASSERT_TRUE(call.Await().ok());
  }
  seen_->Clear();
  server_.SetScript({Unavailable(), Succeed()});
  EXPECT_EQ(CallWithin(absl::Seconds(20)).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kDeadlineTooClose)));
}

TEST_P(DeadlineTest, ADeadlineInMidAttemptEndsTheCallAndTellsTheLastAnswer) {
  server_.SetScript({Unavailable("busy"), Hold()});
  MakeChannel(Policy(4));
  const CallResult result = CallWithin(absl::Milliseconds(300));
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(result.status.error_message(), HasSubstr("UNAVAILABLE: busy"));
  EXPECT_EQ(result.text, UntouchedReply(GetParam()));
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(),
                          AllOf(OfAttempt(2),
                                Returns(Reason::kNotRetryable,
                                        absl::StatusCode::kDeadlineExceeded))));
}

// The words of a server that answers DEADLINE_EXCEEDED in time are its own.
TEST_P(DeadlineTest, AServersOwnDeadlineExceededIsItsLastAnswer) {
  server_.SetScript(
      {Unavailable("busy"), Fail(grpc::StatusCode::DEADLINE_EXCEEDED, "mine")});
  MakeChannel(Policy(4));
  EXPECT_EQ(CallUnary().status.error_message(), "mine");
  server_.SetScript(
      {Unavailable("busy"), Fail(grpc::StatusCode::DEADLINE_EXCEEDED, "mine")});
  EXPECT_EQ(CallWithin(absl::Seconds(20)).status.error_message(), "mine");
}

TEST_P(DeadlineTest, AFirstAttemptThatNeverAnswersEndsAtTheDeadline) {
  server_.SetScript({Hold()});
  MakeChannel(Policy(4));
  const CallResult result = CallWithin(absl::Milliseconds(100));
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(server_.calls(), 1);
  EXPECT_TRUE(server_.AwaitCancelled(1));
}

TEST_P(DeadlineTest, ADeadlineThatPassesDuringBackoffReturnsTheLastAnswer) {
  const auto clock = UseManualClock();
  server_.SetScript(
      {WithTrailing(Fail(grpc::StatusCode::UNAVAILABLE, "busy", "details"),
                    "trailing", "kept")});
  // Longer than the waits, so that only a token that was given back is back.
  MakeChannel(Policy(4).Backoff("10s").Budget("\"window\": \"1000s\""));
  grpc::ClientContext context;
  context.set_deadline(In(absl::Seconds(60)));
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  EXPECT_EQ(Snapshot().budget_left, 9);
  clock->Advance(absl::Seconds(60));
  const grpc::Status status = call.Await();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "busy");
  EXPECT_EQ(status.error_details(), "details");
  EXPECT_EQ(context.GetServerTrailingMetadata().count("trailing"), 1);
  EXPECT_EQ(call.text(), UntouchedReply(GetParam()));
  EXPECT_EQ(server_.calls(), 1);
  EXPECT_THAT(
      seen_->decisions(),
      ElementsAre(Retries(),
                  AllOf(OfAttempt(1), Returns(Reason::kDeadlineTooClose))));
  EXPECT_EQ(Snapshot().budget_left, 10);
  EXPECT_EQ(Snapshot().retries, 0);
}

TEST_P(DeadlineTest, ADeadlineInThePastSendsNothing) {
  MakeChannel(Policy(4));
  for (const absl::Duration ago : {absl::Milliseconds(1), absl::Hours(1)}) {
    seen_->Clear();
    const CallResult result = CallWithin(-ago);
    EXPECT_EQ(result.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_THAT(
        seen_->decisions(),
        ElementsAre(AllOf(OfAttempt(0), Returns(Reason::kDeadlineTooClose))));
  }
  grpc::ClientContext context;
  context.set_deadline(gpr_inf_past(GPR_CLOCK_REALTIME));
  EXPECT_EQ(CallUnary(&context).status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(server_.calls(), 0);
  EXPECT_EQ(Snapshot().calls, 0);
  EXPECT_EQ(Snapshot().budget_left, 10);
}

TEST_P(DeadlineTest, ADeadlineOfAnyClockIsUnderstood) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4).Backoff("50s"));
  for (const gpr_clock_type clock : {GPR_CLOCK_REALTIME, GPR_CLOCK_MONOTONIC}) {
    seen_->Clear();
    server_.SetScript({Unavailable(), Succeed()});
    grpc::ClientContext context;
    context.set_deadline(
        gpr_time_add(gpr_now(clock), gpr_time_from_seconds(20, GPR_TIMESPAN)));
    EXPECT_EQ(CallUnary(&context).status.error_code(),
              grpc::StatusCode::UNAVAILABLE);
    EXPECT_THAT(seen_->decisions(),
                ElementsAre(AllOf(Returns(Reason::kDeadlineTooClose),
                                  Field(&RecordedDecision::remaining,
                                        Le(absl::Seconds(20))))));
  }
}

// An hour as gRPC sees it, while this lives.
class WallClockGoesForward {
 public:
  WallClockGoesForward() {
    before_ = gpr_now_impl;
    gpr_now_impl = [](gpr_clock_type clock) {
      const gpr_timespec now = before_(clock);
      return clock == GPR_CLOCK_REALTIME
                 ? gpr_time_add(now, gpr_time_from_hours(1, GPR_TIMESPAN))
                 : now;
    };
  }
  ~WallClockGoesForward() { gpr_now_impl = before_; }

 private:
  inline static gpr_timespec (*before_)(gpr_clock_type) = nullptr;
};

// As for a bare call, which looks at the wall clock when it is made.
TEST_P(DeadlineTest, AWallClockThatIsSetChangesNothingForACallUnderWay) {
  const auto clock = UseManualClock();
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4).Backoff("1s"));
  grpc::ClientContext context;
  context.set_deadline(In(absl::Seconds(60)));
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  {
    const WallClockGoesForward set;
    clock->Advance(absl::Seconds(1));
    EXPECT_TRUE(call.Await().ok()) << call.Await().error_message();
  }
  EXPECT_EQ(server_.calls(), 2);
}

// Not before its time either, as gRPC 1.51 itself would.
TEST_P(DeadlineTest, TheConfigsTimeoutEndsTheCall) {
  server_.SetScript({Hold()});
  MakeChannel(Policy(4).Method("\"timeout\": \"0.1s\""));
  const CallResult result = CallUnary();
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_LE(server_.seen().at(0).time_left(), absl::Milliseconds(150));
}

TEST_P(DeadlineTest, TheConfigsTimeoutIsForTheWholeCall) {
  const auto clock = UseManualClock();
  server_.SetScript({Unavailable(), Unavailable("two"), Succeed()});
  MakeChannel(Policy(4).Backoff("20s").Method("\"timeout\": \"30s\""));
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  clock->Advance(absl::Seconds(20));
  EXPECT_EQ(call.Await().error_message(), "two");
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Returns(Reason::kDeadlineTooClose)));
  EXPECT_EQ(seen_->decisions()[1].remaining, absl::Seconds(10));
  const std::vector<SeenCall> seen = server_.seen();
  ASSERT_EQ(seen.size(), 2);
  // gRPC rounds it up on the wire.
  EXPECT_THAT(seen[0].time_left(),
              AllOf(Gt(absl::Seconds(20)), Le(absl::Seconds(31))));
  EXPECT_THAT(seen[1].time_left(),
              AllOf(Gt(absl::Seconds(0)), Le(absl::Milliseconds(10100))));
}

TEST_P(DeadlineTest, TheConfigsTimeoutNeverLengthensTheCallersDeadline) {
  server_.SetScript({Hold()});
  MakeChannel(Policy(4).Method("\"timeout\": \"1000s\""));
  const CallResult result = CallWithin(absl::Milliseconds(100));
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

// With a timeout per attempt, short enough for a test and long enough for a
// busy machine: what matters is the first attempt, which is never answered.
class AttemptTimeoutTest : public DeadlineTest {
 protected:
  static constexpr char kTimeout[] = "\"perAttemptTimeout\": \"0.1s\"";
};
RETRY_GUARD_IN_EVERY_STYLE(AttemptTimeoutTest);

TEST_P(AttemptTimeoutTest, AnIdempotentAttemptThatHangsIsRepeated) {
  server_.SetScript({Hold(), Succeed()});
  MakeChannel(Policy(10).Guard(kTimeout));
  EXPECT_TRUE(CallMethod("Idempotent").status.ok());
  EXPECT_GE(server_.calls(), 2);
  EXPECT_TRUE(server_.AwaitCancelled(1));
  EXPECT_THAT(seen_->decisions().front(),
              AllOf(Retries(), Field(&RecordedDecision::code,
                                     absl::StatusCode::kDeadlineExceeded)));
  EXPECT_THAT(seen_->decisions().back(), Succeeds());
  EXPECT_LE(server_.seen().at(0).time_left(), absl::Milliseconds(150));
}

TEST_P(AttemptTimeoutTest, TheStandardKeyMeansTheSame) {
  server_.SetScript({Hold(), Succeed()});
  MakeChannel(Policy(10).Retry("\"perAttemptRecvTimeout\": \"0.1s\""));
  EXPECT_TRUE(CallMethod("ReadOnly").status.ok());
  EXPECT_GE(server_.calls(), 2);
}

TEST_P(AttemptTimeoutTest, AnAttemptThatMayHaveBeenExecutedIsNotRepeated) {
  server_.SetScript({Hold()});
  MakeChannel(Policy(4).Guard(kTimeout));
  EXPECT_EQ(CallUnary().status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(server_.calls(), 1);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kNotIdempotent)));
}

TEST_P(AttemptTimeoutTest, UnlessTheConfigListsItsCode) {
  server_.SetScript({Hold(), Succeed()});
  MakeChannel(Policy(10).Guard(kTimeout).Codes(
      "\"UNAVAILABLE\", \"DEADLINE_EXCEEDED\""));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_GE(server_.calls(), 2);
}

TEST_P(AttemptTimeoutTest, AttemptsThatAllHangAreExhausted) {
  server_.SetScript({Hold()});
  MakeChannel(Policy(2).Guard(kTimeout));
  EXPECT_EQ(CallMethod("Idempotent").status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(server_.calls(), 2);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Returns(Reason::kAttemptsExhausted)));
}

TEST_P(AttemptTimeoutTest, AnEarlierAnswerIsToldWhenTheLastAttemptHangs) {
  server_.SetScript({Unavailable("busy"), Hold()});
  MakeChannel(Policy(2).Guard("\"perAttemptTimeout\": \"0.25s\""));
  const CallResult result = CallMethod("Idempotent");
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(result.status.error_message(), HasSubstr("UNAVAILABLE: busy"));
}

TEST_P(AttemptTimeoutTest, TheCallsDeadlineIsNoAttemptTimeout) {
  server_.SetScript({Hold()});
  MakeChannel(Policy(4).Guard("\"perAttemptTimeout\": \"100s\""));
  EXPECT_EQ(CallWithin(absl::Milliseconds(100), "hi", "Idempotent")
                .status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kNotRetryable)));
}

}  // namespace
}  // namespace retry_guard::end2end
