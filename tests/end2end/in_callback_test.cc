// Calls that an application makes in a callback of gRPC's.

#include <grpcpp/alarm.h>

#include <chrono>

#include "absl/synchronization/notification.h"
#include "tests/end2end/fixture.h"
#include "tests/end2end/interceptors.h"

namespace retry_guard::end2end {
namespace {

using ::testing::ElementsAre;
using testing::Retries;
using testing::Returns;

// Answers attempts itself, and badly: a server in this process would need the
// thread that the test blocks.
class Refuser final : public Interceptor {
 public:
  void Intercept(InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      batch->Hijack();  // the batch comes again, to receive
      return;
    }
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_RECV_MESSAGE)) {
      batch->FailHijackedRecvMessage();
    }
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_RECV_STATUS)) {
      *batch->GetRecvStatus() =
          grpc::Status(grpc::StatusCode::UNAVAILABLE, "refused");
    }
    batch->Proceed();
  }
};

class InCallbackTest : public EndToEndTest {};
INSTANTIATE_TEST_SUITE_P(Styles, InCallbackTest,
                         ::testing::Values(Style::kSync), StyleParamName);

// gRPC runs the callbacks of timers, ours too, one after the other, and the one
// that waits here is the first.
TEST_P(InCallbackTest, ABlockingCallIsRetriedAndReturns) {
  MakeChannelByHand(
      Policy(2).Backoff("0.02s"),
      ListOf(MakeEach([](ClientRpcInfo*) { return new Refuser; })));
  CallResult result;
  absl::Notification done;
  grpc::Alarm alarm;
  alarm.Set(std::chrono::system_clock::now(), [&](bool /*fired*/) {
    result = CallUnary();
    done.Notify();
  });
  // A call that does not end ends the program: see StartedCall.
  done.WaitForNotification();
  EXPECT_EQ(result.status.error_message(), "refused");
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Returns(Reason::kAttemptsExhausted)));
}

}  // namespace
}  // namespace retry_guard::end2end
