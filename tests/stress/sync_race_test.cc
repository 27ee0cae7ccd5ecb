// Blocking calls through real gRPC, retried, cancelled and refused on many
// threads at once, with nothing beside them whose locks the thread sanitizer
// does not see.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "retry_guard/channel.h"
#include "retry_guard/guard.h"
#include "retry_guard/testing/echo.grpc.pb.h"

namespace retry_guard::stress {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;

constexpr int kThreads = 4;
constexpr int kCallsPerThread = 100;

// Fails two attempts in three.
class OftenDown final : public EchoService::Service {
 public:
  int attempts() const { return attempts_.load(); }

 private:
  grpc::Status Unary(grpc::ServerContext* /*context*/,
                     const EchoRequest* request, EchoReply* reply) override {
    if (attempts_.fetch_add(1) % 3 != 2) {
      return {grpc::StatusCode::UNAVAILABLE, "down"};
    }
    reply->set_text(request->text());
    return grpc::Status::OK;
  }

  std::atomic<int> attempts_{0};
};

class Counting final : public Observer {
 public:
  void OnDecision(const Decision& decision) override {
    (decision.verdict == Verdict::kRetry ? retries : ends).fetch_add(1);
  }
  void OnAttempt(const AttemptReport& /*report*/) override {
    attempts.fetch_add(1);
  }

  std::atomic<int> retries{0};
  std::atomic<int> ends{0};
  std::atomic<int> attempts{0};
};

class SyncRaceTest : public ::testing::Test {
 protected:
  SyncRaceTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    InterceptorOptions options;
    options.guard = guard_;
    options.observers = {observer_};
    options.service_config_json = R"({
      "methodConfig": [{
        "name": [{}],
        "retryPolicy": {
          "maxAttempts": 5,
          "initialBackoff": "0.001s",
          "maxBackoff": "0.002s",
          "backoffMultiplier": 1,
          "retryableStatusCodes": ["UNAVAILABLE"]
        },
        "retryGuard": {"maxAttempts": 20}
      }],
      "retryGuard": {
        "budget": {"ratio": 1, "minRetries": 100000},
        "breaker": {"failureRate": 0}
      }
    })";
    auto channel = CreateChannel("127.0.0.1:" + std::to_string(port),
                                 grpc::InsecureChannelCredentials(), options);
    EXPECT_TRUE(channel.ok());
    stub_ = EchoService::NewStub(*channel);
  }
  ~SyncRaceTest() override {
    server_->Shutdown(std::chrono::system_clock::now());
  }

  grpc::Status Call(grpc::ClientContext* context, const std::string& text,
                    EchoReply* reply) {
    context->set_deadline(std::chrono::system_clock::now() +
                          std::chrono::seconds(60));
    EchoRequest request;
    request.set_text(text);
    return stub_->Unary(context, request, reply);
  }

  OftenDown service_;
  std::unique_ptr<grpc::Server> server_;
  const std::shared_ptr<Guard> guard_ = Guard::Create();
  const std::shared_ptr<Counting> observer_ = std::make_shared<Counting>();
  std::unique_ptr<EchoService::Stub> stub_;
};

template <typename Body>
void OnEachThread(const Body& body) {
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SyncRaceTest, EachCallGetsItsOwnReplyAndEveryAttemptIsCounted) {
  OnEachThread([this](int thread) {
    for (int i = 0; i < kCallsPerThread; ++i) {
      const std::string text = std::to_string(thread) + "/" + std::to_string(i);
      grpc::ClientContext context;
      EchoReply reply;
      const grpc::Status status = Call(&context, text, &reply);
      EXPECT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(reply.text(), text);
    }
  });
  const GuardSnapshot snapshot = guard_->Snapshot();
  EXPECT_EQ(snapshot.calls, kThreads * kCallsPerThread);
  EXPECT_EQ(snapshot.attempts, service_.attempts());
  EXPECT_EQ(observer_->attempts, service_.attempts());
  EXPECT_EQ(observer_->ends, kThreads * kCallsPerThread);
  EXPECT_EQ(observer_->retries, snapshot.retries);
}

TEST_F(SyncRaceTest, CallsMayBeCancelledFromOtherThreads) {
  OnEachThread([this](int thread) {
    for (int i = 0; i < kCallsPerThread; ++i) {
      grpc::ClientContext context;
      std::thread other([&] {
        // Now before the call starts, now in any of its attempts or waits.
        for (int spin = 0; spin < thread * kCallsPerThread + i; ++spin) {
          std::this_thread::yield();
        }
        context.TryCancel();
      });
      EchoReply reply;
      const grpc::Status status = Call(&context, "hi", &reply);
      other.join();
      // "down": the answer was there when the cancellation came.
      EXPECT_TRUE(status.ok() || status.error_message() == "down" ||
                  status.error_code() == grpc::StatusCode::CANCELLED)
          << status.error_code() << " " << status.error_message();
    }
  });
  EXPECT_EQ(observer_->ends, kThreads * kCallsPerThread);
}

TEST_F(SyncRaceTest, TheKillSwitchMayBeThrownMeanwhile) {
  std::atomic<bool> done{false};
  std::thread operator_thread([&] {
    for (bool on = false; !done.load(); on = !on) {
      guard_->SetRetriesEnabled(on);
      EXPECT_GE(guard_->Snapshot().attempts, 0);
      std::this_thread::yield();
    }
  });
  OnEachThread([this](int /*thread*/) {
    for (int i = 0; i < kCallsPerThread; ++i) {
      grpc::ClientContext context;
      EchoReply reply;
      const grpc::Status status = Call(&context, "hi", &reply);
      EXPECT_TRUE(status.ok() || status.error_message() == "down")
          << status.error_message();
    }
  });
  done.store(true);
  operator_thread.join();
  EXPECT_EQ(observer_->ends, kThreads * kCallsPerThread);
  EXPECT_EQ(guard_->Snapshot().attempts, service_.attempts());
}

}  // namespace
}  // namespace retry_guard::stress
