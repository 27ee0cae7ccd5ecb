// What somebody else's project does with retry_guard: makes a channel, makes a
// call that fails once and then succeeds, and looks at what was decided.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "greeter.grpc.pb.h"
#include "retry_guard/channel.h"
#include "retry_guard/server.h"
#include "retry_guard/testing/manual_clock.h"
#include "retry_guard/testing/matchers.h"
#include "retry_guard/testing/recording_observer.h"

namespace {

using ::retry_guard::Reason;
using ::retry_guard::testing::OfAttempt;
using ::retry_guard::testing::RecordingObserver;
using ::retry_guard::testing::Retries;
using ::retry_guard::testing::Returns;
using ::retry_guard::testing::Succeeds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Its first answer, and one to nobody, is an error.
class Greeter final : public stranger::Greeter::Service {
 public:
  Greeter() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  grpc::Status Greet(grpc::ServerContext* context,
                     const stranger::GreetRequest* request,
                     stranger::GreetReply* reply) override {
    if (request->name().empty()) {
      return retry_guard::DoNotRetry(
          context, {grpc::StatusCode::UNAVAILABLE, "nobody is there"});
    }
    if (++calls_ == 1) return {grpc::StatusCode::UNAVAILABLE, "not yet"};
    reply->set_text("Hello, " + request->name() + "!");
    return grpc::Status::OK;
  }

  int port_ = 0;
  std::atomic<int> calls_{0};
  std::unique_ptr<grpc::Server> server_;
};

constexpr char kPolicy[] = R"json({
  "methodConfig": [{
    "name": [{"service": "stranger.Greeter"}],
    "timeout": "30s",
    "retryPolicy": {
      "maxAttempts": 3, "initialBackoff": "0.01s", "maxBackoff": "0.1s",
      "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]
    }
  }]
})json";

class StrangerTest : public ::testing::Test {
 protected:
  StrangerTest() {
    retry_guard::InterceptorOptions options;
    options.service_config_json = kPolicy;
    options.observers = {seen_};
    auto channel = retry_guard::CreateChannel(
        server_.address(), grpc::InsecureChannelCredentials(), options);
    EXPECT_TRUE(channel.ok()) << channel.status();
    if (channel.ok()) stub_ = stranger::Greeter::NewStub(*channel);
  }

  grpc::Status Greet(const std::string& name) {
    stranger::GreetRequest request;
    request.set_name(name);
    grpc::ClientContext context;
    return stub_->Greet(&context, request, &reply_);
  }

  std::shared_ptr<RecordingObserver> seen_ =
      std::make_shared<RecordingObserver>();
  Greeter server_;
  std::unique_ptr<stranger::Greeter::Stub> stub_;
  stranger::GreetReply reply_;
};

TEST_F(StrangerTest, ACallThatFailsOnceSucceeds) {
  ASSERT_NE(stub_, nullptr);
  const grpc::Status status = Greet("you");
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(reply_.text(), "Hello, you!");
  EXPECT_THAT(seen_->decisions(), ElementsAre(AllOf(Retries(), OfAttempt(1)),
                                              AllOf(Succeeds(), OfAttempt(2))));
}

TEST_F(StrangerTest, AServerThatForbidsItIsNotAskedAgain) {
  ASSERT_NE(stub_, nullptr);
  EXPECT_EQ(Greet("").error_message(), "nobody is there");
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kServerSaidStop)));
}

TEST(StrangerConfigTest, AMisspeltPolicyIsRefused) {
  retry_guard::InterceptorOptions options;
  options.service_config_json = R"({"retryGuard": {"budgett": {}}})";
  options.clock = std::make_shared<retry_guard::testing::ManualClock>();
  auto channel = retry_guard::CreateChannel(
      "127.0.0.1:1", grpc::InsecureChannelCredentials(), options);
  ASSERT_FALSE(channel.ok());
  EXPECT_THAT(std::string(channel.status().message()),
              HasSubstr("did you mean \"budget\""));
}

}  // namespace
