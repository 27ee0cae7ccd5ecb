// Who may go, and when, while calls are under way.

#include <dirent.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/end2end/kind_fixture.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
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

// What a SelfOwnedReactor leaves behind.
struct SelfOwnedEnd {
  absl::Notification may_go;  // nobody uses its context any more
  absl::Notification gone;
  grpc::Status status;
};

// A reactor that owns its call, the last reference to its channel, and itself,
// as callback code does, and is gone before its OnDone returns.
template <typename Reactor>
class SelfOwnedReactor final : public Reactor {
 public:
  SelfOwnedReactor(std::shared_ptr<grpc::Channel> channel, SelfOwnedEnd* end)
      : channel_(std::move(channel)), end_(end) {}

  void OnDone(const grpc::Status& status) override {
    SelfOwnedEnd* const end = end_;
    end->may_go.WaitForNotification();
    end->status = status;
    delete this;
    end->gone.Notify();
  }

  // It may be gone when this returns.
  void Start() {
    auto* const stub = stub_->async();
    if constexpr (kIs<grpc::ClientUnaryReactor>) {
      stub->Unary(&context_, &request_, &reply_, this);
    } else if constexpr (kIs<grpc::ClientReadReactor<EchoReply>>) {
      stub->ServerStream(&context_, &request_, this);
      this->StartRead(&reply_);
    } else if constexpr (kIs<grpc::ClientWriteReactor<EchoRequest>>) {
      stub->ClientStream(&context_, &reply_, this);
      this->StartWriteLast(&request_, {});
    } else {
      stub->Bidi(&context_, this);
      this->StartRead(&reply_);
      this->StartWriteLast(&request_, {});
    }
    this->StartCall();
  }

  grpc::ClientContext* context() { return &context_; }

 private:
  template <typename Other>
  static constexpr bool kIs = std::is_same_v<Reactor, Other>;

  std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<EchoService::Stub> stub_ =
      EchoService::NewStub(channel_);
  grpc::ClientContext context_;
  EchoRequest request_;
  EchoReply reply_;
  SelfOwnedEnd* const end_;
};

class SelfOwnedReactorTest : public KindTest {
 protected:
  void TearDown() override {
    if (end_ != nullptr) AwaitGone();
  }

  // Starts a call that has the channel to itself from now on. Its context may
  // be used until end_.may_go.
  grpc::ClientContext* Start() {
    switch (GetParam().shape) {
      case Shape::kUnary:
        return Start<grpc::ClientUnaryReactor>();
      case Shape::kServerStream:
        return Start<grpc::ClientReadReactor<EchoReply>>();
      case Shape::kClientStream:
        return Start<grpc::ClientWriteReactor<EchoRequest>>();
      case Shape::kBidi:
        return Start<grpc::ClientBidiReactor<EchoRequest, EchoReply>>();
    }
    return nullptr;
  }

  // Its status, once it is gone.
  grpc::Status AwaitGone() {
    if (!end_->may_go.HasBeenNotified()) end_->may_go.Notify();
    EXPECT_TRUE(end_->gone.WaitForNotificationWithTimeout(absl::Seconds(30)));
    return end_->status;
  }

 private:
  template <typename Reactor>
  grpc::ClientContext* Start() {
    end_ = std::make_unique<SelfOwnedEnd>();
    auto* const call =
        new SelfOwnedReactor<Reactor>(std::move(channel_), end_.get());
    grpc::ClientContext* const context = call->context();
    call->Start();
    return context;
  }

  std::unique_ptr<SelfOwnedEnd> end_;
};
INSTANTIATE_TEST_SUITE_P(
    Shapes, SelfOwnedReactorTest,
    ::testing::Values(Kind{Shape::kUnary, Style::kReactor},
                      Kind{Shape::kServerStream, Style::kReactor},
                      Kind{Shape::kClientStream, Style::kReactor},
                      Kind{Shape::kBidi, Style::kReactor}),
    KindParamName);

TEST_P(SelfOwnedReactorTest, MayDropItselfAndTheChannelAfterARetry) {
  for (int round = 0; round < 30; ++round) {
    play_->SetScript({Down(), Down(), Good()});
    MakeChannel(Generous(4));
    Start();
    EXPECT_TRUE(AwaitGone().ok());
    EXPECT_EQ(play_->calls(), 3);
  }
}

TEST_P(SelfOwnedReactorTest, MayDropItselfAndTheChannelWhenItIsRefused) {
  const auto clock = UseManualClock();
  play_->SetScript({Down()});
  const std::string policy = Policy(1).Breaker(
      "\"consecutiveFailures\": 1, \"openFor\": \"100s\", "
      "\"maxOpenFor\": \"100s\"");
  MakeChannel(policy);
  EXPECT_EQ(Call().status.error_message(), "down");
  for (int round = 0; round < 30; ++round) {
    MakeChannel(policy);
    Start();
    EXPECT_THAT(AwaitGone().error_message(), HasSubstr("breaker is open"));
  }
  EXPECT_EQ(play_->calls(), 1);
}

TEST_P(SelfOwnedReactorTest, MayDropItselfAndTheChannelWhenItIsCancelled) {
  const auto clock = UseManualClock();
  play_->SetScript({Down()});
  for (int round = 0; round < 30; ++round) {
    MakeChannel(Generous(4).Backoff("5s"));
    grpc::ClientContext* const context = Start();
    ASSERT_TRUE(clock->AwaitTimers(1));
    context->TryCancel();
    EXPECT_EQ(AwaitGone().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_EQ(play_->calls(), 30);
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
