// Ours is not the only interceptor of a channel.

#include "tests/end2end/interceptors.h"

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "tests/end2end/kind_fixture.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;

constexpr int kAttempts = 3;

class InterceptorsTest : public KindTest {
 protected:
  static std::string method() {
    return "/retry_guard.testing.EchoService/" + MethodOf(GetParam().shape);
  }

  const std::shared_ptr<Sightings> before_ = std::make_shared<Sightings>();
  const std::shared_ptr<Sightings> after_ = std::make_shared<Sightings>();
};
RETRY_GUARD_WITH_EVERY_KIND(InterceptorsTest);

TEST_P(InterceptorsTest, BeforeOursSeeOneCallAndAfterOursEachAttempt) {
  play_->SetScript({Down(), Down(), Good()});
  before_ours_.push_back(Watch(before_));
  MakeChannelByHand(Policy(4), ListOf(Watch(after_)));
  EXPECT_TRUE(Call().status.ok());
  const auto before = before_->calls();
  ASSERT_EQ(before.size(), 1);
  EXPECT_EQ(before[0].method, method());
  EXPECT_EQ(before[0].messages_sent, 1);
  EXPECT_THAT(before[0].statuses, ElementsAre(grpc::StatusCode::OK));
  ASSERT_TRUE(after_->AwaitEnded(kAttempts));
  const auto after = after_->calls();
  ASSERT_EQ(after.size(), kAttempts);
  for (int i = 0; i < kAttempts; ++i) {
    EXPECT_EQ(after[i].method, method());
    EXPECT_THAT(after[i].statuses,
                ElementsAre(i + 1 < kAttempts ? grpc::StatusCode::UNAVAILABLE
                                              : grpc::StatusCode::OK));
  }
  EXPECT_EQ(after.back().messages_sent, 1);
}

TEST_P(InterceptorsTest, BeforeOursSeeACallAsWithoutOurs) {
  const auto without = std::make_shared<Sightings>();
  const auto bare = grpc::experimental::CreateCustomChannelWithInterceptors(
      play_->address(), grpc::InsecureChannelCredentials(), {},
      ListOf(Watch(without)));
  grpc::ClientContext context;
  EXPECT_TRUE(Call(bare, &context).status.ok());
  play_->SetScript({Down(), Down(), Good()});
  before_ours_.push_back(Watch(before_));
  MakeChannel(Policy(kAttempts));
  EXPECT_TRUE(Call().status.ok());
  ASSERT_EQ(before_->calls().size(), 1);
  ASSERT_EQ(without->calls().size(), 1);
  const Sightings::Call ours = before_->calls()[0];
  const Sightings::Call theirs = without->calls()[0];
  EXPECT_EQ(ours.messages_sent, theirs.messages_sent);
  EXPECT_EQ(ours.messages_received, theirs.messages_received);
  EXPECT_EQ(ours.null_messages_received, theirs.null_messages_received);
  EXPECT_EQ(ours.statuses, theirs.statuses);
}

TEST_P(InterceptorsTest, BeforeOursByCreateChannelSeeOneCall) {
  play_->SetScript({Down(), Good()});
  before_ours_.push_back(Watch(before_));
  MakeChannel(Policy(4));
  EXPECT_TRUE(Call().status.ok());
  EXPECT_EQ(before_->calls().size(), 1);
  EXPECT_EQ(play_->calls(), 2);
}

// gRPC leaves those behind ours out of an attempt by counting, and counts
// wrongly where one makes no interceptor.
TEST_P(InterceptorsTest, BeforeOursSeeOneCallWhoeverMakesNone) {
  const auto sightings = std::make_shared<Sightings>();
  before_ours_ = ListOf(NoInterceptor(), NoInterceptor(), Watch(sightings),
                        std::unique_ptr<ClientInterceptorFactoryInterface>());
  play_->SetScript({Down(), Down(), Good()});
  // Attempts of our own from the first one on.
  MakeChannel(Policy(4).Guard(R"("perAttemptTimeout": "60s")"));
  EXPECT_TRUE(Call().status.ok());
  EXPECT_EQ(play_->calls(), 3);
  EXPECT_EQ(sightings->calls().size(), 1);
}

TEST_P(InterceptorsTest, BeforeOursSeeTheFailureThatTheCallerSees) {
  play_->SetScript({Down()});
  before_ours_.push_back(Watch(before_));
  MakeChannel(Policy(2));
  Call();
  ASSERT_EQ(before_->calls().size(), 1);
  EXPECT_THAT(before_->calls()[0].statuses,
              ElementsAre(grpc::StatusCode::UNAVAILABLE));
}

TEST_P(InterceptorsTest, BeforeOursSeeOneCallThatWasRefused) {
  const auto clock = UseManualClock();
  play_->SetScript({Down()});
  before_ours_.push_back(Watch(before_));
  MakeChannelByHand(Policy(1).Breaker("\"consecutiveFailures\": 1"),
                    ListOf(Watch(after_)));
  Call();
  EXPECT_EQ(Call().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(before_->calls().size(), 2);
  EXPECT_EQ(after_->calls().size(), 1);
}

// As a logging interceptor does that knows the service: what is not null is the
// service's own message.
TEST_P(InterceptorsTest, MayTakeMessagesForWhatTheyAre) {
  if (IsGeneric(GetParam().style)) return;
  play_->SetScript({Down(), Good()});
  before_ours_.push_back(Watch(before_, /*cast=*/true));
  MakeChannelByHand(Policy(4), ListOf(Watch(after_, /*cast=*/true)));
  grpc::ClientContext context;
  EXPECT_TRUE(Call(&context, "a text").status.ok());
  EXPECT_THAT(before_->calls().at(0).replies, ElementsAre("a text"));
  for (const auto& attempt : after_->calls()) {
    EXPECT_THAT(attempt.requests, Each("a text"));
  }
  EXPECT_THAT(after_->calls().at(1).replies, ElementsAre("a text"));
}

TEST_P(InterceptorsTest, MayAddMetadataBeforeOurs) {
  play_->SetScript({Down(), Good()});
  before_ours_.push_back(OnEachBatch([](InterceptorBatchMethods* batch) {
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      batch->GetSendInitialMetadata()->emplace("trace", "123");
    }
    batch->Proceed();
  }));
  MakeChannel(Policy(4));
  EXPECT_TRUE(Call().status.ok());
  for (const PlayedCall& attempt : play_->seen()) {
    EXPECT_THAT(attempt.Values("trace"), ElementsAre("123"));
  }
}

TEST_P(InterceptorsTest, MayAddMetadataToEachAttempt) {
  play_->SetScript({Down(), Good()});
  std::atomic<int> span{0};
  MakeChannelByHand(
      Policy(4), ListOf(OnEachBatch([&span](InterceptorBatchMethods* batch) {
        if (batch->QueryInterceptionHookPoint(
                InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
          batch->GetSendInitialMetadata()->emplace("span",
                                                   std::to_string(++span));
        }
        batch->Proceed();
      })));
  EXPECT_TRUE(Call().status.ok());
  const std::vector<PlayedCall> seen = play_->seen();
  ASSERT_EQ(seen.size(), 2);
  EXPECT_THAT(seen[0].Values("span"), ElementsAre("1"));
  EXPECT_THAT(seen[1].Values("span"), ElementsAre("2"));
}

// gRPC counts interceptors without the factories that made none; its index into
// the factories is off then, and would find ours again, and again.
TEST_P(InterceptorsTest, AFactoryThatMakesNoneBeforeOursIsHarmless) {
  play_->SetScript({Down(), Down(), Good()});
  before_ours_.push_back(NoInterceptor());
  MakeChannelByHand(Policy(4), ListOf(Watch(after_)));
  EXPECT_TRUE(Call().status.ok());
  EXPECT_EQ(play_->calls(), 3);
  EXPECT_EQ(after_->calls().size(), 3);
  EXPECT_EQ(Snapshot().calls, 1);
}

TEST_P(InterceptorsTest, AFactoryThatMakesNoneAfterOursIsHarmless) {
  play_->SetScript({Down(), Good()});
  before_ours_.push_back(NoInterceptor());
  before_ours_.push_back(Watch(before_));
  MakeChannelByHand(Policy(4), ListOf(NoInterceptor(), Watch(after_)));
  EXPECT_TRUE(Call().status.ok());
  EXPECT_EQ(play_->calls(), 2);
  EXPECT_EQ(before_->calls().size(), 1);
  EXPECT_EQ(after_->calls().size(), 2);
}

// Says so when its call starts.
class Announcer final : public Interceptor {
 public:
  explicit Announcer(std::function<void()> announce)
      : announce_(std::move(announce)) {}

  void Intercept(InterceptorBatchMethods* batch) override {
    // gRPC may show the start of a hijacked call more than once.
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_INITIAL_METADATA) &&
        !std::exchange(announced_, true)) {
      announce_();
    }
    batch->Proceed();
  }

 private:
  const std::function<void()> announce_;
  bool announced_ = false;
};

TEST_P(InterceptorsTest, TheirOrderIsKept) {
  absl::Mutex mu;
  std::vector<std::string> order;
  const auto announcer = [&](const std::string& name) {
    return MakeEach([&mu, &order, name](ClientRpcInfo*) {
      return new Announcer([&mu, &order, name] {
        absl::MutexLock lock(&mu);
        order.push_back(name);
      });
    });
  };
  play_->SetScript({Down(), Good()});
  before_ours_ = ListOf(announcer("before 1"), announcer("before 2"));
  MakeChannelByHand(Policy(4),
                    ListOf(announcer("after 1"), announcer("after 2")));
  EXPECT_TRUE(Call().status.ok());
  EXPECT_THAT(order, ElementsAre("before 1", "before 2", "after 1", "after 2",
                                 "after 1", "after 2"));
}

// Answers an attempt itself: UNAVAILABLE or OK.
class Impostor final : public Interceptor {
 public:
  Impostor(bool fails, bool bytes) : fails_(fails), bytes_(bytes) {}

  void Intercept(InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      batch->Hijack();
      return;
    }
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_RECV_MESSAGE)) {
      if (fails_ || filled_) {
        batch->FailHijackedRecvMessage();
      } else {
        Fill(batch->GetRecvMessage());
        filled_ = true;
      }
    }
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_RECV_STATUS)) {
      *batch->GetRecvStatus() =
          fails_ ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "impostor")
                 : grpc::Status::OK;
    }
    batch->Proceed();
  }

 private:
  void Fill(void* reply) const {
    EchoReply filled;
    filled.set_text("from the impostor");
    if (!bytes_) {
      *static_cast<EchoReply*>(reply) = filled;
      return;
    }
    bool own = false;
    (void)grpc::SerializationTraits<EchoReply>::Serialize(
        filled, static_cast<grpc::ByteBuffer*>(reply), &own)
        .ok();
  }

  const bool fails_;
  const bool bytes_;
  bool filled_ = false;
};

TEST_P(InterceptorsTest, AfterOursMayAnswerAttemptsThemselves) {
  // gRPC asks for the status of a reactor's stream at its start, and this one
  // gives it before any message is read: README, Limitations.
  const bool reactor = GetParam().style == Style::kReactor ||
                       GetParam().style == Style::kGenericReactor;
  if (ServerStreams(GetParam().shape) && reactor) GTEST_SKIP();
  const bool bytes = IsGeneric(GetParam().style);
  // Of an answer that never came by the wire nobody can tell whether it has
  // headers; where those commit the call, it gets no second chance.
  const bool headers_commit =
      GetParam().shape != Shape::kUnary || HeadersCommit(GetParam().style);
  const int failures = headers_commit ? 0 : 2;
  std::atomic<int> attempts{0};
  const auto counts_hijacked = [&](InterceptorBatchMethods* batch) {
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      ++attempts;
    }
    batch->Proceed();
  };
  // A caller's own call that is no attempt has one that never runs.
  std::atomic<int> made{IsItsOwnFirstAttempt(GetParam()) ? 0 : -1};
  MakeChannelByHand(Policy(4),
                    ListOf(OnEachBatch(counts_hijacked),
                           MakeEach([&, bytes, failures](ClientRpcInfo*) {
                             return new Impostor(made++ < failures, bytes);
                           })));
  const CallResult result = Call();
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.text, "from the impostor");
  EXPECT_EQ(attempts, failures + 1);
  EXPECT_EQ(play_->calls(), 0);
}

// Lets every batch go on later, from a thread of its own.
class Delayer {
 public:
  Delayer() : thread_([this] { Run(); }) {}
  ~Delayer() {
    {
      absl::MutexLock lock(&mu_);
      stopping_ = true;
    }
    thread_.join();
  }

  std::unique_ptr<ClientInterceptorFactoryInterface> Factory() {
    return OnEachBatch([this](InterceptorBatchMethods* batch) {
      if (batch->QueryInterceptionHookPoint(
              InterceptionHookPoints::PRE_SEND_CANCEL)) {
        batch->Proceed();
        return;
      }
      absl::MutexLock lock(&mu_);
      waiting_.push_back(batch);
    });
  }

 private:
  void Run() {
    const auto work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return stopping_ || !waiting_.empty();
    };
    for (;;) {
      mu_.LockWhen(absl::Condition(&work));
      if (waiting_.empty()) {
        mu_.Unlock();
        return;
      }
      InterceptorBatchMethods* const batch = waiting_.front();
      waiting_.pop_front();
      mu_.Unlock();
      batch->Proceed();
    }
  }

  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<InterceptorBatchMethods*> waiting_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

TEST_P(InterceptorsTest, BeforeOursMayGoOnFromAnotherThread) {
  const StartedCall::KeepRequests keep;
  Delayer delayer;
  play_->SetScript({Down(), Down(), Good()});
  before_ours_.push_back(delayer.Factory());
  MakeChannel(Policy(4));
  const CallResult result = Call();
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.text, "hi");
  EXPECT_EQ(play_->calls(), 3);
}

TEST_P(InterceptorsTest, AfterOursMayGoOnFromAnotherThread) {
  Delayer delayer;
  play_->SetScript({Down(), Down(), Good()});
  MakeChannelByHand(Policy(4), ListOf(delayer.Factory()));
  const CallResult result = Call();
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.text, "hi");
  EXPECT_EQ(play_->calls(), 3);
}

// Lets the start of a call go on when it is told to, and the rest at once: one
// that has to fetch a token first, say.
class LateStart {
 public:
  std::unique_ptr<ClientInterceptorFactoryInterface> Factory() {
    return OnEachBatch([this](InterceptorBatchMethods* batch) {
      if (batch->QueryInterceptionHookPoint(
              InterceptionHookPoints::PRE_SEND_INITIAL_METADATA) &&
          start_ == nullptr) {
        start_ = batch;
      } else {
        batch->Proceed();
      }
    });
  }
  void Start() { start_->Proceed(); }

 private:
  InterceptorBatchMethods* start_ = nullptr;
};

// Sends one message, and half-closes with it, before its call has started.
class WritesFirst final : public grpc::ClientWriteReactor<EchoRequest> {
 public:
  explicit WritesFirst(const std::shared_ptr<grpc::Channel>& channel) {
    request_.set_text("hi");
    EchoService::NewStub(channel)->async()->ClientStream(&context_, &reply_,
                                                         this);
    StartWriteLast(&request_, {});
    StartCall();
  }
  void OnWriteDone(bool ok) override { written_ = ok; }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.Notify();
  }
  const grpc::Status& Await() {
    done_.WaitForNotification();
    return status_;
  }
  bool written() const { return written_; }
  std::string text() const { return reply_.text(); }

 private:
  grpc::ClientContext context_;
  EchoRequest request_;
  EchoReply reply_;
  bool written_ = false;
  grpc::Status status_;
  absl::Notification done_;
};

class LateStartTest : public EndToEnd {
 protected:
  LateStartTest() {
    target_ = play_.address();
    before_ours_.push_back(late_.Factory());
  }

  PlayServer play_;
  LateStart late_;
};

TEST_F(LateStartTest, WhatWasWrittenBeforeTheStartIsSentByEveryAttempt) {
  play_.SetScript({Play().ReadToEnd().Ends(
                       {grpc::StatusCode::UNAVAILABLE, "after all of it"}),
                   Echo()});
  MakeChannel(Policy(4));
  WritesFirst call(channel_);
  late_.Start();
  EXPECT_TRUE(call.Await().ok());
  EXPECT_TRUE(call.written());
  EXPECT_EQ(call.text(), "hi");
  ASSERT_EQ(play_.calls(), 2);
  EXPECT_THAT(play_.seen().at(0).messages, ElementsAre("hi"));
}

TEST_F(LateStartTest, WhatWasWrittenToACallThatIsRefusedIsNotTakenForSent) {
  play_.SetScript({Down()});
  MakeChannel(Policy(1).Breaker(
      R"("failureRate": 0, "consecutiveFailures": 1, "openFor": "1000s")"));
  {
    WritesFirst opens_the_breaker(channel_);
    late_.Start();
    opens_the_breaker.Await();
  }
  ASSERT_EQ(Snapshot().breaker_state, BreakerState::kOpen);
  late_ = LateStart();
  WritesFirst call(channel_);
  late_.Start();
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(call.written());
}

TEST_P(InterceptorsTest, ACancellationPassesThemAll) {
  const StartedCall::KeepRequests keep;
  Delayer delayer;
  play_->SetScript({Silent()});
  before_ours_.push_back(Watch(before_));
  before_ours_.push_back(delayer.Factory());
  MakeChannelByHand(Policy(4), ListOf(Watch(after_)));
  grpc::ClientContext context;
  grpc::Status status;
  std::thread call([&] { status = Call(&context).status; });
  EXPECT_TRUE(play_->AwaitCalls(1));
  context.TryCancel();
  call.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_THAT(before_->calls().at(0).statuses,
              ElementsAre(grpc::StatusCode::CANCELLED));
}

// Field case 19: a wrapped context must not be shared between calls.
TEST_P(InterceptorsTest, ACancelledCallLeavesNothingBehindForTheNext) {
  before_ours_.push_back(Watch(before_));
  MakeChannelByHand(Policy(4), ListOf(Watch(after_)));
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext context;
    context.TryCancel();
    EXPECT_EQ(Call(&context).status.error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(Call().status.ok());
  }
}

}  // namespace
}  // namespace retry_guard::end2end
