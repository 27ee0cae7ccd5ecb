// Calls that an application makes in a callback of gRPC's.

#include <grpcpp/alarm.h>

#include <chrono>

#include "absl/synchronization/notification.h"
#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::ElementsAre;
using testing::Retries;
using testing::Succeeds;

class InCallbackTest : public EndToEndTest {};
INSTANTIATE_TEST_SUITE_P(Styles, InCallbackTest,
                         ::testing::Values(Style::kSync), StyleParamName);

// gRPC runs timers, ours too, one after the other on the thread that waits here
// for one of them.
TEST_P(InCallbackTest, ABlockingCallIsRetriedAndReturns) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4).Backoff("0.02s"));
  // To connect would take that thread, too.
  ASSERT_TRUE(channel_->WaitForConnected(std::chrono::system_clock::now() +
                                         std::chrono::seconds(20)));
  CallResult result;
  absl::Notification done;
  grpc::Alarm alarm;
  alarm.Set(std::chrono::system_clock::now(), [&](bool /*fired*/) {
    result = CallUnary();
    done.Notify();
  });
  // Without an end of the call there is none of the test.
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(60)));
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds()));
}

}  // namespace
}  // namespace retry_guard::end2end
