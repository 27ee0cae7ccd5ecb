// Who may go, and when, while calls are under way.

#include <dirent.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "tests/end2end/kind_fixture.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;
using ::testing::ElementsAre;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;

int ThreadsOfThisProcess() {
  DIR* const tasks = opendir("/proc/self/task");
  int threads = -2;  // . and ..
  while (readdir(tasks) != nullptr) ++threads;
  closedir(tasks);
  return threads;
}

// Enough for everything that a test here retries.
Policy Generous(int attempts) {
  return Policy(attempts).NoBreaker().Budget(
      "\"ratio\": 1, \"minRetries\": 100000, \"window\": \"1000s\"");
}

class LifetimeTest : public EndToEndTest {};
RETRY_GUARD_IN_EVERY_STYLE(LifetimeTest);

TEST_P(LifetimeTest, TheChannelMayBeDroppedDuringABackoff) {
  const auto clock = UseManualClock();
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4).Backoff("5s"));
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  channel_ = nullptr;
  clock->Advance(absl::Seconds(5));
  EXPECT_TRUE(call.Await().ok());
  EXPECT_EQ(call.text(), "hi");
  EXPECT_EQ(server_.calls(), 2);
}

TEST_P(LifetimeTest, TheChannelMayBeDroppedAndTheCallCancelled) {
  const auto clock = UseManualClock();
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(4).Backoff("5s"));
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  channel_ = nullptr;
  context.TryCancel();
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_P(LifetimeTest, TheChannelMayBeDroppedDuringAnAttempt) {
  server_.SetScript({Unavailable(), Hold()});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(server_.AwaitCalls(2));
  channel_ = nullptr;
  server_.Release();
  EXPECT_TRUE(call.Await().ok());
}

TEST_P(LifetimeTest, TheServerMayGoDuringABackoff) {
  const auto clock = UseManualClock();
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(2).Backoff("5s"));
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  server_.Shutdown();
  clock->Advance(absl::Seconds(5));
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_P(LifetimeTest, TheGuardAndTheObserversMayBeDroppedByTheApplication) {
  const auto clock = UseManualClock();
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4).Backoff("5s"));
  options_ = InterceptorOptions();
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  clock->Advance(absl::Seconds(5));
  EXPECT_TRUE(call.Await().ok());
}

// Nobody moves the time any more: who waits for it is let go.
TEST_P(LifetimeTest, AManualClockThatEndsEndsTheWaits) {
  auto clock = UseManualClock();
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4).Backoff("5s"));
  options_.clock = nullptr;
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  context.TryCancel();
  clock = nullptr;
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_P(LifetimeTest, ACallKeepsThePolicyThatItStartedWith) {
  const auto clock = UseManualClock();
  server_.SetScript({Unavailable(), Unavailable(), Succeed()});
  MakeChannelByHand(Policy(3).Backoff("5s"));
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  EXPECT_TRUE(factory_->UpdateServiceConfig(Policy(1).Json()).ok());
  clock->Advance(absl::Seconds(5));
  ASSERT_TRUE(clock->AwaitTimers(1));
  clock->Advance(absl::Seconds(5));
  EXPECT_TRUE(call.Await().ok());

  server_.SetScript({Unavailable(), Succeed()});
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(factory_->UpdateServiceConfig("no JSON").ok());
  server_.SetScript({Unavailable(), Succeed()});
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

// Ends the process with calls in every state.
class ExitTest : public KindTest {
 protected:
  void SetUp() override {
    ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  }

  [[noreturn]] void ExitWithCallsUnderWay(int count, const Play& play) {
    play_->SetScript({play});
    MakeChannel(Generous(4).Backoff("1000s"));
    auto* const contexts = new std::deque<grpc::ClientContext>();
    auto* const calls = new std::deque<StartedWhole>();
    for (int i = 0; i < count; ++i) {
      contexts->emplace_back();
      calls->emplace_back(GetParam(), channel_, &contexts->back());
    }
    if (!play_->AwaitCalls(count)) std::abort();
    const bool fails = !play.status().ok();
    if (fails && !seen_->AwaitDecisions(count)) std::abort();
    std::exit(0);
  }
};
RETRY_GUARD_WITH_EVERY_KIND(ExitTest);

TEST_P(ExitTest, TheProcessMayExitWithCallsInBackoff) {
  EXPECT_EXIT(ExitWithCallsUnderWay(100, Down()), ::testing::ExitedWithCode(0),
              "");
}

TEST_P(ExitTest, TheProcessMayExitWithAttemptsUnderWay) {
  EXPECT_EXIT(ExitWithCallsUnderWay(20, Silent()), ::testing::ExitedWithCode(0),
              "");
}

// Styles that block no thread of the application's.
class ManyCallsTest : public EndToEndTest {};
INSTANTIATE_TEST_SUITE_P(Styles, ManyCallsTest,
                         ::testing::Values(Style::kCallback, Style::kReactor,
                                           Style::kGenericCallback,
                                           Style::kGenericReactor),
                         StyleParamName);

TEST_P(ManyCallsTest, InBackoffUseNoThreadsAndHoldUpNobody) {
  constexpr int kCalls = 1000;
  const auto clock = UseManualClock();
  MakeChannel(Generous(2).Backoff("100s"));
  std::vector<Reaction> script(kCalls, Unavailable());
  script.push_back(Succeed());
  server_.SetScriptFor("waits", script);
  // gRPC starts its own threads now, not later.
  ASSERT_TRUE(CallUnary().status.ok());
  const int threads = ThreadsOfThisProcess();

  std::deque<grpc::ClientContext> contexts;
  std::deque<StartedCall> calls;
  for (int i = 0; i < kCalls; ++i) {
    contexts.emplace_back();
    calls.emplace_back(GetParam(), channel_, &contexts.back(), "waits");
  }
  ASSERT_TRUE(clock->AwaitTimers(kCalls));
  // gRPC's pollers come and go by themselves, a few at a time.
  EXPECT_LE(ThreadsOfThisProcess(), threads + 16);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(CallUnary().status.ok());

  clock->Advance(absl::Seconds(100));
  for (StartedCall& call : calls) EXPECT_TRUE(call.Await().ok());
  EXPECT_EQ(server_.seen("waits").size(), 2 * kCalls);
}

TEST_P(ManyCallsTest, InARealBackoffHoldUpNobody) {
  MakeChannel(Generous(2).Backoff("1000s"));
  server_.SetScriptFor("waits", {Unavailable()});
  std::deque<grpc::ClientContext> contexts;
  std::deque<StartedCall> calls;
  const int count = 4 * static_cast<int>(std::thread::hardware_concurrency());
  for (int i = 0; i < count; ++i) {
    contexts.emplace_back();
    calls.emplace_back(GetParam(), channel_, &contexts.back(), "waits");
  }
  ASSERT_TRUE(seen_->AwaitDecisions(count));
  EXPECT_TRUE(CallUnary().status.ok());
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (StartedCall& call : calls) {
    EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::CANCELLED);
  }
}

// A call that owns itself, as callback code does, and is gone before its
// callback returns: with it the context, and perhaps the channel.
struct SelfOwned {
  grpc::ClientContext context;
  EchoRequest request;
  EchoReply reply;
};

class SelfOwnedTest : public EndToEndTest {
 protected:
  void Start(absl::BlockingCounter* done, std::atomic<int>* ok,
             SelfOwned* call) {
    EchoService::NewStub(channel_)->async()->Unary(
        &call->context, &call->request, &call->reply,
        [done, ok, call](const grpc::Status& status) {
          if (status.ok()) ++*ok;
          delete call;
          done->DecrementCount();
        });
  }
};
INSTANTIATE_TEST_SUITE_P(Styles, SelfOwnedTest,
                         ::testing::Values(Style::kCallback), StyleParamName);

TEST_P(SelfOwnedTest, MayDropItselfAndTheChannelInItsCallback) {
  for (int round = 0; round < 30; ++round) {
    server_.SetScript({Unavailable(), Unavailable(), Succeed()});
    MakeChannel(Generous(4));
    absl::BlockingCounter done(1);
    std::atomic<int> ok{0};
    Start(&done, &ok, new SelfOwned());
    channel_ = nullptr;
    done.Wait();
    EXPECT_EQ(ok, 1);
  }
}

TEST_P(SelfOwnedTest, MayDropItselfWhenItIsRefusedOrCancelled) {
  MakeChannel(Generous(4));
  constexpr int kCalls = 100;
  absl::BlockingCounter done(kCalls);
  std::atomic<int> ok{0};
  for (int i = 0; i < kCalls; ++i) {
    auto* const call = new SelfOwned();
    call->context.TryCancel();
    Start(&done, &ok, call);
  }
  done.Wait();
  EXPECT_EQ(ok, 0);
  EXPECT_EQ(server_.calls(), 0);
}

class QueueTest : public EndToEndTest {
 protected:
  // Shuts the queue down while its one call waits, lets `then` happen, and
  // expects the call's tag, and after that the end of the queue.
  grpc::Status ShutDownDuringBackoff(
      const std::function<void(testing::ManualClock&, grpc::ClientContext&)>&
          then) {
    const auto clock = UseManualClock();
    server_.SetScript({Unavailable(), Succeed()});
    MakeChannel(Policy(4).Backoff("5s"));
    grpc::ClientContext context;
    EchoRequest request;
    EchoReply reply;
    grpc::Status status;
    grpc::CompletionQueue queue;
    auto reader =
        EchoService::NewStub(channel_)->AsyncUnary(&context, request, &queue);
    reader->Finish(&reply, &status, &reply);
    // The failure of the first attempt is noticed when somebody polls.
    std::thread poller([&] {
      void* tag = nullptr;
      bool ok = false;
      EXPECT_TRUE(queue.Next(&tag, &ok));
      EXPECT_EQ(tag, &reply);
      EXPECT_TRUE(ok);
      EXPECT_FALSE(queue.Next(&tag, &ok));
    });
    EXPECT_TRUE(clock->AwaitTimers(1));
    queue.Shutdown();
    channel_ = nullptr;
    then(*clock, context);
    poller.join();
    return status;
  }
};
INSTANTIATE_TEST_SUITE_P(Styles, QueueTest, ::testing::Values(Style::kQueue),
                         StyleParamName);

TEST_P(QueueTest, ShutDownDuringABackoffTheCallStillEnds) {
  EXPECT_TRUE(ShutDownDuringBackoff([](testing::ManualClock& clock,
                                       grpc::ClientContext& /*context*/) {
                clock.Advance(absl::Seconds(5));
              }).ok());
}

TEST_P(QueueTest, ShutDownDuringABackoffTheCallCanBeCancelled) {
  EXPECT_EQ(ShutDownDuringBackoff([](testing::ManualClock& /*clock*/,
                                     grpc::ClientContext& context) {
              context.TryCancel();
            }).error_code(),
            grpc::StatusCode::CANCELLED);
}

}  // namespace
}  // namespace retry_guard::end2end
