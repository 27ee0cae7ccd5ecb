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
#include "tests/end2end/fixture.h"

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

enum class Kind { kSync, kCallback };

std::unique_ptr<Middle> Serve(Kind kind, Handler handler) {
  if (kind == Kind::kSync) return std::make_unique<SyncMiddle>(handler);
  return std::make_unique<CallbackMiddle>(handler);
}

class ParentTest : public EndToEndTest {
 protected:
  // Makes one call with the context that it was given, and answers with its
  // status.
  Handler Forward() {
    return [this](std::unique_ptr<grpc::ClientContext> context) {
      grpc::Status status = CallUnary(context.get()).status;
      absl::MutexLock lock(&mu_);
      inner_ = status;
      return status;
    };
  }

  // Starts one call, waits until `ready`, and answers OK while the call goes
  // on.
  Handler LeaveBehind(std::function<bool()> ready) {
    return [this, ready](std::unique_ptr<grpc::ClientContext> context) {
      behind_context_ = std::move(context);
      behind_ = std::make_unique<StartedCall>(GetParam(), channel_,
                                              behind_context_.get(), "hi");
      return ready() ? grpc::Status::OK
                     : grpc::Status(grpc::StatusCode::INTERNAL, "not ready");
    };
  }

  grpc::Status inner() {
    absl::MutexLock lock(&mu_);
    return inner_;
  }

  absl::Mutex mu_;
  grpc::Status inner_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<grpc::ClientContext> behind_context_;
  std::unique_ptr<StartedCall> behind_;
};
RETRY_GUARD_IN_EVERY_STYLE(ParentTest);

constexpr Kind kBoth[] = {Kind::kSync, Kind::kCallback};

TEST_P(ParentTest, EveryAttemptHasTheParentsDeadline) {
  for (const Kind kind : kBoth) {
    server_.SetScript({Unavailable(), Unavailable(), Succeed()});
    MakeChannel(Policy(4));
    const auto middle = Serve(kind, Forward());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(30));
    EXPECT_TRUE(Call(Style::kSync, middle->ChannelTo(), &context).status.ok());
    const std::vector<SeenCall> seen = server_.seen();
    EXPECT_EQ(seen.size(), 3);
    for (const SeenCall& attempt : seen) {
      EXPECT_THAT(attempt.time_left(),
                  AllOf(Gt(absl::Seconds(5)), Le(absl::Seconds(31))));
    }
  }
}

TEST_P(ParentTest, WithoutADeadlineEveryAttemptHasNone) {
  for (const Kind kind : kBoth) {
    server_.SetScript({Unavailable(), Succeed()});
    MakeChannel(Policy(4));
    const auto middle = Serve(kind, Forward());
    grpc::ClientContext context;
    EXPECT_TRUE(Call(Style::kSync, middle->ChannelTo(), &context).status.ok());
    for (const SeenCall& attempt : server_.seen()) {
      EXPECT_EQ(attempt.time_left(), absl::InfiniteDuration());
    }
  }
}

TEST_P(ParentTest, CancelledDuringAnAttemptEndsIt) {
  for (const Kind kind : kBoth) {
    server_.SetScript({Unavailable(), Hold()});
    MakeChannel(Policy(4));
    auto middle = Serve(kind, Forward());
    grpc::ClientContext context;
    StartedCall outer(Style::kCallback, middle->ChannelTo(), &context, "hi");
    ASSERT_TRUE(server_.AwaitCalls(2));
    context.TryCancel();
    EXPECT_EQ(outer.Await().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(server_.AwaitCancelled(1));
    middle = nullptr;  // the handler has returned
    EXPECT_EQ(inner().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_EQ(server_.calls(), 2);
  }
}

TEST_P(ParentTest, CancelledDuringABackoffEndsItAtOnce) {
  for (const Kind kind : kBoth) {
    const auto clock = UseManualClock();
    options_.guard = nullptr;
    seen_->Clear();
    server_.SetScript({Unavailable(), Succeed()});
    MakeChannel(Policy(4).Backoff("1000s"));
    auto middle = Serve(kind, Forward());
    grpc::ClientContext context;
    StartedCall outer(Style::kCallback, middle->ChannelTo(), &context, "hi");
    ASSERT_TRUE(clock->AwaitTimers(1));
    context.TryCancel();
    outer.Await();
    middle = nullptr;
    EXPECT_EQ(inner().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_EQ(server_.calls(), 1);
    EXPECT_EQ(Snapshot().budget_left, 10);
    EXPECT_THAT(seen_->decisions(),
                ElementsAre(Retries(), Returns(Reason::kCallerCancelled)));
  }
}

// Whether the deadline or the cancellation that follows it is noticed first is
// up to gRPC.
TEST_P(ParentTest, WhoseDeadlinePassesDuringABackoffEndsIt) {
  for (const Kind kind : kBoth) {
    const auto clock = UseManualClock();
    server_.SetScript({Unavailable("busy"), Succeed()});
    MakeChannel(Policy(4).Backoff("1000s"));
    auto middle = Serve(kind, Forward());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(300));
    Call(Style::kSync, middle->ChannelTo(), &context);
    middle = nullptr;
    EXPECT_THAT(inner().error_code(), AnyOf(grpc::StatusCode::UNAVAILABLE,
                                            grpc::StatusCode::CANCELLED));
    EXPECT_EQ(server_.calls(), 1);
  }
}

TEST_P(ParentTest, ThatHasEndedCancelsABackoffThatItLeftBehind) {
  for (const Kind kind : kBoth) {
    const auto clock = UseManualClock();
    server_.SetScript({Unavailable(), Succeed()});
    MakeChannel(Policy(4).Backoff("1000s"));
    const auto middle =
        Serve(kind, LeaveBehind([&] { return clock->AwaitTimers(1); }));
    grpc::ClientContext context;
    EXPECT_TRUE(Call(Style::kSync, middle->ChannelTo(), &context).status.ok());
    EXPECT_EQ(behind_->Await().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_EQ(server_.calls(), 1);
  }
}

// With a retry of CANCELLED there is a next attempt, whose parent is gone: it
// ends at once, and cleanly.
TEST_P(ParentTest, ThatHasEndedCancelsAttemptsThatStartLater) {
  for (const Kind kind : kBoth) {
    server_.SetScript({Hold()});
    MakeChannel(Policy(4).Codes("\"CANCELLED\""));
    const auto middle =
        Serve(kind, LeaveBehind([&] { return server_.AwaitCalls(1); }));
    grpc::ClientContext context;
    EXPECT_TRUE(Call(Style::kSync, middle->ChannelTo(), &context).status.ok());
    EXPECT_EQ(behind_->Await().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_EQ(server_.calls(), 1);
  }
}

}  // namespace
}  // namespace retry_guard::end2end
