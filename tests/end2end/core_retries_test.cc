// Where gRPC core itself retries a method we stand down: one retry loop, not
// two. (Every server here ends its answers with a grpc-status: 1.51's core
// aborts on one that does not, with its retries on.)

#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;

class CoreRetriesTest : public EndToEndTest {
 protected:
  // For core to retry by. A backoff that it rounds to 0 ms never ends in gRPC
  // 1.83.0.
  static Policy Cores() { return Policy(3).Backoff("0.01s"); }

  // Registered by hand, as if CreateChannel did not exist.
  void Make(const std::string& ours, const std::string& cores,
            bool core_retries_off = false, bool tell = false) {
    grpc::ChannelArguments arguments;
    if (!cores.empty()) arguments.SetServiceConfigJSON(cores);
    if (core_retries_off) arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    InterceptorOptions options;
    options.service_config_json = ours;
    options.observers = {seen_};
    options.guard = options_.guard = Guard::Create();
    options.core_retries_off = tell;
    auto factory = InterceptorFactory::Create(std::move(options));
    ASSERT_TRUE(factory.ok()) << factory.status();
    channel_ = grpc::experimental::CreateCustomChannelWithInterceptors(
        server_.address(), credentials_, arguments,
        ListOf(*std::move(factory)));
  }
};
RETRY_GUARD_IN_EVERY_STYLE(CoreRetriesTest);

TEST_P(CoreRetriesTest, CoresRetriesAreLeftToIt) {
  server_.SetScript({Unavailable("busy")});
  Make(Policy(4), Cores());
  for (int call = 1; call <= 3; ++call) {
    SCOPED_TRACE(call);
    seen_->Clear();
    EXPECT_EQ(CallUnary().status.error_message(), "busy");
    // Three, not twelve: even for the first call, when the channel's config is
    // only just there.
    EXPECT_EQ(server_.calls(), 3 * call);
    EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kCoreRetries)));
  }
  EXPECT_EQ(Snapshot().retries, 0);
}

TEST_P(CoreRetriesTest, NothingIsClaimedForWhatCoreRetries) {
  Make(Policy(4), Cores());
  CallUnary();
  CallUnary();  // its config is known by now
  EXPECT_THAT(server_.seen().at(1).Values("retry-owner"), IsEmpty());
}

TEST_P(CoreRetriesTest, TheChannelsOwnConfigIsOursToo) {
  server_.SetScript({Unavailable()});
  Make("", Cores());
  CallUnary();
  EXPECT_EQ(server_.calls(), 3);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kCoreRetries)));
}

TEST_P(CoreRetriesTest, TurnedOffTheRetriesAreOurs) {
  server_.SetScript({Unavailable()});
  Make(Policy(4), Cores(), /*core_retries_off=*/true, /*tell=*/true);
  CallUnary();
  EXPECT_EQ(server_.calls(), 4);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Retries(), Retries(),
                          Returns(Reason::kAttemptsExhausted)));
}

TEST_P(CoreRetriesTest, WithoutARetryPolicyForCoreTheRetriesAreOurs) {
  server_.SetScript({Unavailable(), Succeed()});
  Make(Policy(4), R"({"loadBalancingConfig": [{"round_robin": {}}]})");
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_EQ(server_.calls(), 2);
}

TEST_P(CoreRetriesTest, WithoutAnyConfigForCoreTheRetriesAreOurs) {
  server_.SetScript({Unavailable(), Succeed()});
  Make(Policy(4), "");
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_EQ(server_.calls(), 2);
}

TEST_P(CoreRetriesTest, OnlyTheMethodThatCoreRetriesIsLeftToIt) {
  server_.SetScript({Unavailable(), Unavailable(), Unavailable(), Succeed()});
  Make(Policy(4), R"({"methodConfig": [{
      "name": [{"service": "retry_guard.testing.EchoService",
                "method": "ReadOnly"}],
      "retryPolicy": {"maxAttempts": 2, "initialBackoff": "0.01s",
                      "maxBackoff": "0.01s", "backoffMultiplier": 1,
                      "retryableStatusCodes": ["UNAVAILABLE"]}}]})");
  EXPECT_FALSE(CallMethod("ReadOnly").status.ok());
  EXPECT_EQ(server_.calls(), 2);
  EXPECT_TRUE(CallMethod("Unary").status.ok());
  EXPECT_EQ(server_.calls(), 4);
}

// CreateChannel hands the policy to core and turns its retries off.
TEST_P(CoreRetriesTest, ByCreateChannelTheRetriesAreOurs) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(4));
  CallUnary();
  EXPECT_EQ(server_.calls(), 4);
}

TEST_P(CoreRetriesTest, TheServiceConfigInTheArgumentsIsThePolicy) {
  server_.SetScript({Unavailable()});
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(Policy(2).Backoff("0.01s"));
  MakeChannel("", arguments);
  CallUnary();
  EXPECT_EQ(server_.calls(), 2);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Returns(Reason::kAttemptsExhausted)));
}

}  // namespace
}  // namespace retry_guard::end2end
