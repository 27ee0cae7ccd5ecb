// What a stream leaves behind, and what may go before it.

#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "tests/end2end/kind_fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::ElementsAre;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;

class StreamLifetimeTest : public KindTest {
 protected:
  // Opens the breaker by one failure and lets its time pass. The server plays
  // `probe` with the next call.
  void MakeHalfOpen(testing::ManualClock& clock, const Play& probe) {
    play_->SetScript({Down(), probe, Good()});
    MakeChannel(
        Policy(1).Breaker("\"consecutiveFailures\": 1, \"openFor\": \"1s\""));
    EXPECT_EQ(Call().status.error_code(), grpc::StatusCode::UNAVAILABLE);
    clock.Advance(absl::Seconds(2));
  }
};
RETRY_GUARD_WITH_EVERY_STREAM(StreamLifetimeTest);

// Field case 15.
TEST_P(StreamLifetimeTest, TheChannelMayBeDroppedDuringABackoff) {
  const auto clock = UseManualClock();
  play_->SetScript({Down(), Good()});
  MakeChannel(Policy(4).Backoff("5s"));
  grpc::ClientContext context;
  StartedWhole call = Start(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  channel_ = nullptr;
  clock->Advance(absl::Seconds(5));
  EXPECT_TRUE(call.Await().status.ok());
  EXPECT_EQ(call.Await().text, "hi");
}

TEST_P(StreamLifetimeTest, TheChannelMayBeDroppedDuringAnAttempt) {
  play_->SetScript({Down(), Silent()});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  StartedWhole call = Start(&context);
  ASSERT_TRUE(play_->AwaitCalls(2));
  channel_ = nullptr;
  context.TryCancel();
  EXPECT_EQ(call.Await().status.error_code(), grpc::StatusCode::CANCELLED);
}

TEST_P(StreamLifetimeTest, TheServerMayGoDuringABackoff) {
  const auto clock = UseManualClock();
  play_->SetScript({Down()});
  MakeChannel(Policy(2).Backoff("5s"));
  grpc::ClientContext context;
  StartedWhole call = Start(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  play_ = nullptr;
  clock->Advance(absl::Seconds(5));
  EXPECT_EQ(call.Await().status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

// Field case 5. One of which the server has said nothing says nothing of it.
TEST_P(StreamLifetimeTest, AProbeThatIsCancelledFreesItsSlotAtOnce) {
  const auto clock = UseManualClock();
  MakeHalfOpen(*clock, Silent());
  {
    grpc::ClientContext context;
    StartedWhole probe = Start(&context);
    ASSERT_TRUE(play_->AwaitCalls(2));
    context.TryCancel();
    probe.Await();
  }
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kHalfOpen);
  EXPECT_TRUE(Call().status.ok());
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
}

TEST_P(StreamLifetimeTest, AProbeThatIsCancelledBeforeItIsReadProvesNothing) {
  const auto clock = UseManualClock();
  MakeHalfOpen(*clock, Silent());
  grpc::ClientContext context;
  const auto probe = StartStream(GetParam(), channel_, &context);
  ASSERT_TRUE(play_->AwaitCalls(2));
  context.TryCancel();
  std::string text;
  if (ServerStreams(GetParam().shape)) {
    EXPECT_FALSE(probe->Read(&text));
  }
  EXPECT_EQ(probe->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kHalfOpen);
}

// Else a stream that lasts for hours would keep all others out.
TEST_P(StreamLifetimeTest, AProbeWhoseHeadersHaveComeClosesTheBreakerAtOnce) {
  const auto clock = UseManualClock();
  MakeHalfOpen(*clock, Play().Headers().Hold());
  grpc::ClientContext context;
  const auto probe = StartStream(GetParam(), channel_, &context);
  EXPECT_TRUE(probe->AwaitHeaders());
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
  EXPECT_TRUE(Call().status.ok());
  EXPECT_FALSE(play_->seen().at(1).ended);
  context.TryCancel();
  EXPECT_EQ(probe->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
}

// It has succeeded, as an attempt, with its headers.
TEST_P(StreamLifetimeTest, HowLongAStreamLastsIsNotWhatAnAttemptTakes) {
  const auto clock = UseManualClock();
  play_->SetScript({Play().Headers().Pause().Reply("done"), Down(), Good()});
  MakeChannel(Policy(4));
  {
    grpc::ClientContext context;
    const auto stream = StartStream(GetParam(), channel_, &context);
    EXPECT_TRUE(stream->AwaitHeaders());
    clock->Advance(absl::Seconds(50));
    play_->Release();
    std::string text;
    while (ServerStreams(GetParam().shape) && stream->Read(&text)) {
    }
    EXPECT_TRUE(stream->Finish().ok());
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  StartedWhole call = Start(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  clock->Advance(absl::Milliseconds(1));
  EXPECT_TRUE(call.Await().status.ok());
}

// A reactor's stream cannot be dropped before it has finished.
TEST_P(StreamLifetimeTest, AProbeThatIsDroppedFreesItsSlotAtOnce) {
  if (GetParam().style == Style::kReactor ||
      GetParam().style == Style::kGenericReactor) {
    return;
  }
  const auto clock = UseManualClock();
  MakeHalfOpen(*clock, Silent());
  {
    grpc::ClientContext context;
    const auto probe = StartStream(GetParam(), channel_, &context);
    if (ClientStreams(GetParam().shape)) probe->Write("one");
    ASSERT_TRUE(play_->AwaitCalls(2));
  }
  EXPECT_TRUE(play_->AwaitCancelled(1));
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kHalfOpen);
  EXPECT_TRUE(Call().status.ok());
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
}

// Field case 16.
TEST_P(StreamLifetimeTest, StreamsInBackoffHoldUpNobody) {
  play_->SetScript({Down()});
  MakeChannel(Policy(2).Backoff("1000s").NoBreaker());
  const int count = 4 * static_cast<int>(std::thread::hardware_concurrency());
  std::deque<grpc::ClientContext> contexts;
  std::deque<StartedWhole> calls;
  for (int i = 0; i < count; ++i) {
    contexts.emplace_back();
    calls.emplace_back(GetParam(), channel_, &contexts.back());
  }
  ASSERT_TRUE(seen_->AwaitDecisions(count));
  play_->SetScript({Good()});
  EXPECT_TRUE(Call().status.ok());
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (StartedWhole& call : calls) {
    EXPECT_EQ(call.Await().status.error_code(), grpc::StatusCode::CANCELLED);
  }
}

// Field case 18: gRPC makes a lame channel of one without credentials.
TEST_P(StreamLifetimeTest, ALameChannelGivesItsOwnStatus) {
  credentials_ = nullptr;
  MakeChannel(Policy(4));
  EXPECT_EQ(Call().status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kNotRetryable)));
}

// Field case 17: what a stream has sent is sent again, byte by byte.
TEST_P(StreamLifetimeTest, EveryAttemptSendsTheSame) {
  Play late = Play().Read(1).Ends({grpc::StatusCode::UNAVAILABLE, "down"});
  play_->SetScript({late, late, Good()});
  MakeChannel(Policy(4));
  const std::string text(100'000, 'x');
  grpc::ClientContext context;
  EXPECT_EQ(Call(&context, text).text, text);
  ASSERT_EQ(play_->calls(), 3);
  for (const PlayedCall& attempt : play_->seen()) {
    EXPECT_THAT(attempt.messages, ElementsAre(text));
  }
}

}  // namespace
}  // namespace retry_guard::end2end
