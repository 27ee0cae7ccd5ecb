// A corked stream sends nothing before its first message. One that is over by
// then, although it is being read already, ends at once and has cost nothing.

#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "tests/end2end/interceptors.h"
#include "tests/end2end/kind_fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::IsEmpty;

class CorkedStreamTest : public KindTest {
 protected:
  // Makes the channel, and starts a stream whose Read is pending: it has gone
  // through our interceptor.
  void StartReading(grpc::ClientContext* context) {
    before_ours_.push_back(OnEachBatch([this](InterceptorBatchMethods* batch) {
      const bool reads = !batch->QueryInterceptionHookPoint(
                             InterceptionHookPoints::PRE_SEND_CANCEL) &&
                         batch->GetRecvMessage() != nullptr;
      batch->Proceed();
      // It comes once: nothing that is held comes back before it ends.
      if (reads && !reading_.HasBeenNotified()) reading_.Notify();
    }));
    MakeChannel(Policy(4).Breaker("\"consecutiveFailures\": 1"));
    StreamOptions options;
    options.corked = true;
    stream_ = StartStream(GetParam(), channel_, context, options);
    reader_ = std::thread([this] {
      std::string text;
      EXPECT_FALSE(stream_->Read(&text));
    });
    ASSERT_TRUE(reading_.WaitForNotificationWithTimeout(absl::Seconds(20)));
  }

  // The stream's end; it has neither been sent nor counted.
  grpc::StatusCode EndOfIt() {
    reader_.join();
    const grpc::StatusCode code = stream_->Finish().error_code();
    stream_ = nullptr;  // before its context
    EXPECT_THAT(play_->seen(), IsEmpty());
    EXPECT_EQ(Snapshot().calls, 0);
    EXPECT_EQ(Snapshot().attempts, 0);
    EXPECT_EQ(Snapshot().budget_left, 10);
    EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
    return code;
  }

 private:
  absl::Notification reading_;
  std::unique_ptr<Stream> stream_;
  std::thread reader_;
};
INSTANTIATE_TEST_SUITE_P(Kinds, CorkedStreamTest, ::testing::ValuesIn([] {
                           std::vector<Kind> kinds;
                           for (const Kind& kind : StreamKinds()) {
                             if (kind.shape == Shape::kBidi) {
                               kinds.push_back(kind);
                             }
                           }
                           return kinds;
                         }()),
                         KindParamName);

TEST_P(CorkedStreamTest, CancelledBeforeItsFirstWriteEndsAtOnce) {
  grpc::ClientContext context;
  StartReading(&context);
  context.TryCancel();
  EXPECT_EQ(EndOfIt(), grpc::StatusCode::CANCELLED);
}

TEST_P(CorkedStreamTest, WhoseDeadlinePassesBeforeItsFirstWriteEndsAtOnce) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(200));
  StartReading(&context);
  EXPECT_EQ(EndOfIt(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

}  // namespace
}  // namespace retry_guard::end2end
