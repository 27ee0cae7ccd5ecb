// Streams that are cancelled, or whose deadline passes, at every moment: they
// end at once and cost nothing more.

#include <random>
#include <string>
#include <thread>

#include "tests/end2end/kind_fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::OfAttempt;
using testing::Retries;
using testing::Returns;

std::chrono::system_clock::time_point In(absl::Duration time) {
  return std::chrono::system_clock::now() + absl::ToChronoMilliseconds(time);
}

class StreamCancelTest : public KindTest {};
RETRY_GUARD_WITH_EVERY_STREAM(StreamCancelTest);

// Field case 3.
TEST_P(StreamCancelTest, BeforeTheStartSendsNothingAndCostsNothing) {
  MakeChannel(Policy(4).Breaker("\"consecutiveFailures\": 1"));
  grpc::ClientContext context;
  context.TryCancel();
  EXPECT_EQ(Call(&context).status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(play_->calls(), 0);
  EXPECT_EQ(Snapshot().attempts, 0);
  EXPECT_EQ(Snapshot().budget_left, 10);
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
}

// Field case 2.
TEST_P(StreamCancelTest, DuringBackoffEndsItAtOnceAndGivesTheTokenBack) {
  const auto clock = UseManualClock();
  play_->SetScript({Down()});
  MakeChannel(Policy(4).Backoff("5s"));
  grpc::ClientContext context;
  StartedWhole call = Start(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  EXPECT_EQ(Snapshot().budget_left, 9);
  context.TryCancel();
  EXPECT_EQ(call.Await().status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(Snapshot().budget_left, 10);
  EXPECT_EQ(clock->pending_timers(), 0);
  clock->Advance(absl::Seconds(5));
  EXPECT_EQ(play_->calls(), 1);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), AllOf(OfAttempt(1),
                                           Returns(Reason::kCallerCancelled))));
}

TEST_P(StreamCancelTest, DuringALaterAttemptEndsIt) {
  play_->SetScript({Down(), Silent()});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  StartedWhole call = Start(&context);
  ASSERT_TRUE(play_->AwaitCalls(2));
  context.TryCancel();
  EXPECT_EQ(call.Await().status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(play_->AwaitCancelled(1));
  EXPECT_EQ(play_->calls(), 2);
}

// Field case 1: the cancellation meets an attempt that ends, a wait that
// begins, a wait that ends.
TEST_P(StreamCancelTest, AtAnyMomentItIsNotLost) {
  play_->SetScript({Down()});
  MakeChannel(Policy(20)
                  .Codes("\"UNAVAILABLE\"")
                  .NoBreaker()
                  .Budget("\"minRetries\": 100000"));
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    grpc::ClientContext context;
    StartedWhole call = Start(&context);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 10'000));
    context.TryCancel();
    EXPECT_THAT(
        call.Await().status.error_code(),
        AnyOf(grpc::StatusCode::CANCELLED, grpc::StatusCode::UNAVAILABLE));
  }
}

// Field case 4.
TEST_P(StreamCancelTest, ADeadlineThatPassesDuringBackoffEndsItWithTheAnswer) {
  const auto clock = UseManualClock();
  play_->SetScript({Down("busy").Trailing("trailing", "kept")});
  MakeChannel(Policy(4).Backoff("10s"));
  grpc::ClientContext context;
  context.set_deadline(In(absl::Seconds(60)));
  StartedWhole call = Start(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  clock->Advance(absl::Seconds(60));
  const grpc::Status status = call.Await().status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "busy");
  EXPECT_EQ(context.GetServerTrailingMetadata().count("trailing"), 1);
  EXPECT_EQ(play_->calls(), 1);
  EXPECT_EQ(Snapshot().retries, 0);
}

TEST_P(StreamCancelTest, ABackoffThatDoesNotFitIsRefusedAtOnce) {
  play_->SetScript({Down("busy")});
  MakeChannel(Policy(4).Backoff("1000s"));
  grpc::ClientContext context;
  context.set_deadline(In(absl::Seconds(60)));
  EXPECT_EQ(Call(&context).status.error_message(), "busy");
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kDeadlineTooClose)));
}

TEST_P(StreamCancelTest, ADeadlineInALaterAttemptTellsTheEarlierAnswer) {
  play_->SetScript({Down("busy"), Silent()});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  context.set_deadline(In(absl::Milliseconds(500)));
  const grpc::Status status = Call(&context).status;
  // Where the machine is too slow for a second attempt it is the answer itself.
  EXPECT_THAT(status.error_code(), AnyOf(grpc::StatusCode::DEADLINE_EXCEEDED,
                                         grpc::StatusCode::UNAVAILABLE));
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("busy"));
}

// Field case 14: what was true of one attempt says nothing of the next.
TEST_P(StreamCancelTest, ConsentToOneRetryIsNoneToTheNext) {
  play_->SetScript({Down().Trailing("grpc-retry-pushback-ms", "0"),
                    Play().Ends({grpc::StatusCode::INTERNAL, "broken"}),
                    Good()});
  MakeChannel(Policy(4));
  EXPECT_EQ(Call().status.error_message(), "broken");
  EXPECT_EQ(play_->calls(), 2);
}

}  // namespace
}  // namespace retry_guard::end2end
