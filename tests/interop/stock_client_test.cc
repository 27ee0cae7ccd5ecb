// Stock gRPC clients that retry by themselves, gRPC C++'s core and grpc-js, and
// a server of ours: they do what it says.

#include "retry_guard/channel.h"
#include "retry_guard/server.h"
#include "tests/end2end/fixture.h"
#include "tests/end2end/scripted_server.h"
#include "tests/interop/node_fixture.h"
#include "tests/interop/node_peer.h"
#include "tests/interop/our_server.h"

namespace retry_guard::interop {
namespace {

using end2end::Policy;
using end2end::ScriptedServer;
using ::testing::SizeIs;

enum class StockClient { kGrpcCpp, kGrpcJs };

// Their own retries: soon, thrice, as gRFC A6 has it. (Not sooner: a backoff of
// core's that is rounded to 0 ms never ends in gRPC 1.83.0.)
constexpr char kRetryPolicy[] = R"json({"methodConfig": [{
  "name": [{"service": "retry_guard.testing.EchoService"}],
  "retryPolicy": {
    "maxAttempts": 4, "initialBackoff": "0.01s", "maxBackoff": "0.01s",
    "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]})json";
constexpr int kMaxAttempts = 4;

class StockClientTest : public ::testing::TestWithParam<StockClient> {
 protected:
  void SetUp() override {
    if (GetParam() == StockClient::kGrpcJs) RETRY_GUARD_SKIP_WITHOUT_NODE();
  }

  static ClientResult Call(const OurServer& server) {
    if (GetParam() == StockClient::kGrpcJs) {
      return CallWithGrpcJs(server.address(), kRetryPolicy, "Unary");
    }
    grpc::ChannelArguments arguments;
    arguments.SetServiceConfigJSON(kRetryPolicy);
    grpc::ClientContext context;
    const end2end::CallResult result = end2end::Call(
        end2end::Style::kSync,
        grpc::CreateCustomChannel(
            server.address(), grpc::InsecureChannelCredentials(), arguments),
        &context);
    return {result.status.error_code(),
            result.status.ok() ? result.text : result.status.error_message()};
  }
};
INSTANTIATE_TEST_SUITE_P(Clients, StockClientTest,
                         ::testing::Values(StockClient::kGrpcCpp,
                                           StockClient::kGrpcJs),
                         [](const auto& info) {
                           return info.param == StockClient::kGrpcJs
                                      ? "GrpcJs"
                                      : "GrpcCpp";
                         });

// The others show something only because these clients do retry.
TEST_P(StockClientTest, RetriesAsItsConfigSays) {
  const OurServer server([](int, grpc::ServerContext*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "down");
  });
  EXPECT_EQ(Call(server).code, grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(server.arrivals(), SizeIs(kMaxAttempts));
}

TEST_P(StockClientTest, RetriesAsLateAsItIsTold) {
  const absl::Duration delay = absl::Milliseconds(300);
  const OurServer server([delay](int n, grpc::ServerContext* context) {
    return n < 2 ? RetryLater(context, delay, "busy") : grpc::Status::OK;
  });
  const ClientResult result = Call(server);
  EXPECT_EQ(result.code, grpc::StatusCode::OK);
  EXPECT_EQ(result.text, "hi");
  ASSERT_THAT(server.arrivals(), SizeIs(3));
  // Core's timers count whole milliseconds.
  const absl::Duration gap = delay - absl::Milliseconds(5);
  EXPECT_GE(server.GapAfter(0), gap);
  EXPECT_GE(server.GapAfter(1), gap);
}

TEST_P(StockClientTest, DoesNotRetryWhatItIsToldNotTo) {
  const OurServer server([](int, grpc::ServerContext* context) {
    return DoNotRetry(
        context, grpc::Status(grpc::StatusCode::UNAVAILABLE, "down for good"));
  });
  const ClientResult result = Call(server);
  EXPECT_EQ(result.code, grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(result.text, "down for good");
  EXPECT_THAT(server.arrivals(), SizeIs(1));
}

// A service in the middle that calls a backend with our client.
class Middle {
 public:
  Middle(const ScriptedServer& backend, const std::string& config) {
    InterceptorOptions options;
    options.service_config_json = config;
    auto channel = CreateChannel(backend.address(),
                                 grpc::InsecureChannelCredentials(), options);
    EXPECT_TRUE(channel.ok()) << channel.status();
    stub_ = retry_guard::testing::EchoService::NewStub(*channel);
  }

  const OurServer& server() const { return server_; }

 private:
  grpc::Status CallBackend(const grpc::ServerContext& inbound) {
    const auto outbound = grpc::ClientContext::FromServerContext(inbound);
    retry_guard::testing::EchoRequest request;
    retry_guard::testing::EchoReply reply;
    return stub_->Unary(outbound.get(), request, &reply);
  }

  std::unique_ptr<retry_guard::testing::EchoService::Stub> stub_;
  OurServer server_{[this](int, grpc::ServerContext* inbound) {
    return CallBackend(*inbound);
  }};
};

// Two layers with retries, and yet they do not multiply.
TEST_P(StockClientTest, DoesNotRetryWhatALayerBelowHasGivenUp) {
  const ScriptedServer backend({end2end::Unavailable()});
  const Middle middle(backend, Policy(3).Guard(R"("layer": "HERE")"));
  EXPECT_EQ(Call(middle.server()).code, grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(middle.server().arrivals(), SizeIs(1));
  EXPECT_EQ(backend.calls(), 3);
}

// Its first call opens the breaker, and is told when the next probe is due.
TEST_P(StockClientTest, WaitsForTheProbeOfABreakerBelow) {
  const ScriptedServer backend({end2end::Unavailable(), end2end::Succeed()});
  const Middle middle(
      backend,
      Policy(1).Breaker(R"("consecutiveFailures": 1, "openFor": "1s")"));
  EXPECT_EQ(Call(middle.server()).code, grpc::StatusCode::OK);
  ASSERT_THAT(middle.server().arrivals(), SizeIs(2));
  EXPECT_GE(middle.server().GapAfter(0),
            absl::Milliseconds(800));  // openFor - 20 %
  EXPECT_EQ(backend.calls(), 2);
}

}  // namespace
}  // namespace retry_guard::interop
