// Calls that a server makes on behalf of a call that it received: whatever ends
// that one ends them.

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tests/end2end/kind_fixture.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::Le;
using testing::Retries;
using testing::Returns;

// What the server in the middle does with a call; what it returns is the
// answer. It is run on a thread that may block.
using Handler =
    std::function<grpc::Status(std::unique_ptr<grpc::ClientContext> context)>;

class Middle {
 public:
  virtual ~Middle() = default;

  std::shared_ptr<grpc::Channel> ChannelTo() const {
    return grpc::CreateChannel(absl::StrCat("127.0.0.1:", port_),
                               grpc::InsecureChannelCredentials());
  }

 protected:
  void Start(grpc::Service* service) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(service);
    server_ = builder.BuildAndStart();
  }
  void Stop() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

 private:
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

class SyncMiddle final : public Middle {
 public:
  explicit SyncMiddle(Handler handler) : service_(std::move(handler)) {
    Start(&service_);
  }
  ~SyncMiddle() override { Stop(); }

 private:
  class Service final : public EchoService::Service {
   public:
    explicit Service(Handler handler) : handler_(std::move(handler)) {}
    grpc::Status Unary(grpc::ServerContext* context, const EchoRequest*,
                       EchoReply*) override {
      return handler_(grpc::ClientContext::FromServerContext(*context));
    }

   private:
    const Handler handler_;
  };
  Service service_;
};

class CallbackMiddle final : public Middle {
 public:
  explicit CallbackMiddle(Handler handler) : service_(std::move(handler)) {
    Start(&service_);
  }
  ~CallbackMiddle() override { Stop(); }

 private:
  class Service final : public EchoService::CallbackService {
   public:
    explicit Service(Handler handler) : handler_(std::move(handler)) {}
    ~Service() override {
      for (std::thread& thread : threads_) thread.join();
    }
    grpc::ServerUnaryReactor* Unary(grpc::CallbackServerContext* context,
                                    const EchoRequest*, EchoReply*) override {
      grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
      auto outgoing = grpc::ClientContext::FromCallbackServerContext(*context);
      absl::MutexLock lock(&mu_);
      threads_.emplace_back(
          [this, reactor, outgoing = std::move(outgoing)]() mutable {
            reactor->Finish(handler_(std::move(outgoing)));
          });
      return reactor;
    }

   private:
    const Handler handler_;
    absl::Mutex mu_;
    std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
  };
  Service service_;
};

enum class ServerStyle { kSync, kCallback };

std::unique_ptr<Middle> StartMiddle(ServerStyle style, Handler handler) {
  if (style == ServerStyle::kSync) return std::make_unique<SyncMiddle>(handler);
  return std::make_unique<CallbackMiddle>(handler);
}

class ParentTest : public KindTest {
 protected:
  // Makes one call with the context that it was given, and answers with its
  // status.
  Handler Forward() {
    return [this](std::unique_ptr<grpc::ClientContext> context) {
      grpc::Status status = Call(context.get()).status;
      absl::MutexLock lock(&mu_);
      inner_ = status;
      return status;
    };
  }

  // Starts one call, waits until `ready`, and answers OK while the call goes
  // on.
  Handler LeaveBehind(std::function<bool()> ready) {
    return [this, ready](std::unique_ptr<grpc::ClientContext> context) {
      behind_ = std::thread([this, context = std::move(context)] {
        behind_status_ = Call(context.get()).status;
      });
      return ready() ? grpc::Status::OK
                     : grpc::Status(grpc::StatusCode::INTERNAL, "not ready");
    };
  }

  // How the call that was left behind ended.
  grpc::Status AwaitBehind() {
    behind_.join();
    return behind_status_;
  }

  static grpc::Status CallMiddle(const Middle& middle,
                                 grpc::ClientContext* context) {
    return end2end::Call(Style::kSync, middle.ChannelTo(), context).status;
  }

  grpc::Status inner() {
    absl::MutexLock lock(&mu_);
    return inner_;
  }

  absl::Mutex mu_;
  grpc::Status inner_ ABSL_GUARDED_BY(mu_);
  std::thread behind_;
  grpc::Status behind_status_;
};
RETRY_GUARD_WITH_EVERY_KIND(ParentTest);

constexpr ServerStyle kBoth[] = {ServerStyle::kSync, ServerStyle::kCallback};

TEST_P(ParentTest, EveryAttemptHasTheParentsDeadline) {
  for (const ServerStyle style : kBoth) {
    play_->SetScript({Down(), Down(), Good()});
    MakeChannel(Policy(4));
    const auto middle = StartMiddle(style, Forward());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(30));
    EXPECT_TRUE(CallMiddle(*middle, &context).ok());
    const std::vector<PlayedCall> seen = play_->seen();
    EXPECT_EQ(seen.size(), 3);
    for (const PlayedCall& attempt : seen) {
      EXPECT_THAT(attempt.time_left(),
                  AllOf(Gt(absl::Seconds(5)), Le(absl::Seconds(31))));
    }
  }
}

TEST_P(ParentTest, WithoutADeadlineEveryAttemptHasNone) {
  for (const ServerStyle style : kBoth) {
    play_->SetScript({Down(), Good()});
    MakeChannel(Policy(4));
    const auto middle = StartMiddle(style, Forward());
    grpc::ClientContext context;
    EXPECT_TRUE(CallMiddle(*middle, &context).ok());
    for (const PlayedCall& attempt : play_->seen()) {
      EXPECT_EQ(attempt.time_left(), absl::InfiniteDuration());
    }
  }
}

TEST_P(ParentTest, CancelledDuringAnAttemptEndsIt) {
  for (const ServerStyle style : kBoth) {
    play_->SetScript({Down(), Silent()});
    MakeChannel(Policy(4));
    auto middle = StartMiddle(style, Forward());
    grpc::ClientContext context;
    StartedCall outer(Style::kCallback, middle->ChannelTo(), &context, "hi");
    ASSERT_TRUE(play_->AwaitCalls(2));
    context.TryCancel();
    EXPECT_EQ(outer.Await().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(play_->AwaitCancelled(1));
    middle = nullptr;  // the handler has returned
    EXPECT_EQ(inner().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_EQ(play_->calls(), 2);
  }
}

TEST_P(ParentTest, CancelledDuringABackoffEndsItAtOnce) {
  for (const ServerStyle style : kBoth) {
    const auto clock = UseManualClock();
    options_.guard = nullptr;
    seen_->Clear();
    play_->SetScript({Down(), Good()});
    MakeChannel(Policy(4).Backoff("1000s"));
    auto middle = StartMiddle(style, Forward());
    grpc::ClientContext context;
    StartedCall outer(Style::kCallback, middle->ChannelTo(), &context, "hi");
    ASSERT_TRUE(clock->AwaitTimers(1));
    context.TryCancel();
    outer.Await();
    middle = nullptr;
    EXPECT_EQ(inner().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_EQ(play_->calls(), 1);
    EXPECT_EQ(Snapshot().budget_left, 10);
    EXPECT_THAT(seen_->decisions(),
                ElementsAre(Retries(), Returns(Reason::kCallerCancelled)));
  }
}

// Whether the deadline or the cancellation that follows it is noticed first is
// up to gRPC.
TEST_P(ParentTest, WhoseDeadlinePassesDuringABackoffEndsIt) {
  for (const ServerStyle style : kBoth) {
    const auto clock = UseManualClock();
    play_->SetScript({Down("busy"), Good()});
    MakeChannel(Policy(4).Backoff("1000s"));
    auto middle = StartMiddle(style, Forward());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(300));
    CallMiddle(*middle, &context);
    middle = nullptr;
    EXPECT_THAT(inner().error_code(), AnyOf(grpc::StatusCode::UNAVAILABLE,
                                            grpc::StatusCode::CANCELLED));
    EXPECT_EQ(play_->calls(), 1);
  }
}

TEST_P(ParentTest, ThatHasEndedCancelsABackoffThatItLeftBehind) {
  for (const ServerStyle style : kBoth) {
    const auto clock = UseManualClock();
    play_->SetScript({Down(), Good()});
    MakeChannel(Policy(4).Backoff("1000s"));
    const auto middle =
        StartMiddle(style, LeaveBehind([&] { return clock->AwaitTimers(1); }));
    grpc::ClientContext context;
    EXPECT_TRUE(CallMiddle(*middle, &context).ok());
    EXPECT_EQ(AwaitBehind().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_EQ(play_->calls(), 1);
  }
}

// With a retry of CANCELLED there is a next attempt, whose parent is gone: it
// ends at once, and cleanly.
TEST_P(ParentTest, ThatHasEndedCancelsAttemptsThatStartLater) {
  for (const ServerStyle style : kBoth) {
    play_->SetScript({Silent()});
    MakeChannel(Policy(4).Codes("\"CANCELLED\""));
    const auto middle =
        StartMiddle(style, LeaveBehind([&] { return play_->AwaitCalls(1); }));
    grpc::ClientContext context;
    EXPECT_TRUE(CallMiddle(*middle, &context).ok());
    EXPECT_EQ(AwaitBehind().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_EQ(play_->calls(), 1);
  }
}

}  // namespace
}  // namespace retry_guard::end2end
