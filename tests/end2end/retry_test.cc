// What is retried, how often, and what the caller gets in the end.

#include <map>
#include <string>

#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::OfAttempt;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;

using Metadata = std::multimap<std::string, std::string>;

Metadata Copy(const std::multimap<grpc::string_ref, grpc::string_ref>& from) {
  Metadata copy;
  for (const auto& [key, value] : from) {
    copy.emplace(std::string(key.data(), key.size()),
                 std::string(value.data(), value.size()));
  }
  return copy;
}

class RetryTest : public EndToEndTest {};
RETRY_GUARD_IN_EVERY_STYLE(RetryTest);

TEST_P(RetryTest, SucceedsAfterTwoFailures) {
  server_.SetScript({Unavailable("one"), Unavailable("two"), Succeed()});
  MakeChannel(Policy(4));
  const CallResult result = CallUnary();
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.text, "hi");
  EXPECT_EQ(server_.calls(), 3);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Retries(), Succeeds()));
  const GuardSnapshot snapshot = Snapshot();
  EXPECT_EQ(snapshot.calls, 1);
  EXPECT_EQ(snapshot.attempts, 3);
  EXPECT_EQ(snapshot.retries, 2);
  EXPECT_EQ(snapshot.attempts_to_success[3], 1);
  EXPECT_THAT(snapshot.refusals, IsEmpty());
}

TEST_P(RetryTest, EveryAttemptSendsTheSameRequest) {
  server_.SetScript({Unavailable(), Unavailable(), Succeed()});
  MakeChannel(Policy(4));
  const std::string text(100'000, 'x');
  const CallResult result = CallText(text);
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.text, text);
  EXPECT_EQ(server_.seen(text).size(), 3);
}

TEST_P(RetryTest, ReturnsACodeThatIsNotListedAtOnce) {
  server_.SetScript({Fail(grpc::StatusCode::NOT_FOUND, "no such", "details")});
  MakeChannel(Policy(4));
  const CallResult result = CallUnary();
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(result.status.error_message(), "no such");
  EXPECT_EQ(result.status.error_details(), "details");
  EXPECT_EQ(result.text, UntouchedReply(GetParam()));
  EXPECT_EQ(server_.calls(), 1);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kNotRetryable)));
}

TEST_P(RetryTest, ACodeInTheConfigReplacesTheDefault) {
  server_.SetScript({Fail(grpc::StatusCode::ABORTED), Unavailable()});
  MakeChannel(Policy(4).Codes("\"ABORTED\""));
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Returns(Reason::kNotRetryable)));
}

TEST_P(RetryTest, ExhaustedAttemptsReturnTheLastAnswerWhole) {
  std::vector<Reaction> script;
  for (const std::string n : {"1", "2", "3"}) {
    script.push_back(WithTrailing(
        WithTrailing(WithTrailing(Fail(grpc::StatusCode::UNAVAILABLE,
                                       "message " + n, "details " + n),
                                  "which", n),
                     "bytes-bin", std::string("\0\xff", 2) + n),
        "which", "again " + n));
  }
  server_.SetScript(script);
  MakeChannel(Policy(3));
  grpc::ClientContext context;
  const CallResult result = CallUnary(&context);
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(result.status.error_message(), "message 3");
  EXPECT_EQ(result.status.error_details(), "details 3");
  EXPECT_EQ(result.text, UntouchedReply(GetParam()));
  Metadata trailing = Copy(context.GetServerTrailingMetadata());
  trailing.erase("grpc-status-details-bin");
  EXPECT_THAT(
      trailing,
      ElementsAre(std::pair("bytes-bin", std::string("\0\xff", 2) + "3"),
                  std::pair("which", "3"), std::pair("which", "again 3")));
  EXPECT_THAT(context.GetServerInitialMetadata(), IsEmpty());
  EXPECT_EQ(server_.calls(), 3);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Retries(),
                          AllOf(OfAttempt(3),
                                Returns(Reason::kAttemptsExhausted,
                                        absl::StatusCode::kUnavailable))));
  EXPECT_EQ(Snapshot().refusals.at(Reason::kAttemptsExhausted), 1);
}

TEST_P(RetryTest, OnlyTheAnswersMetadataIsVisibleAndWhole) {
  const std::string large(4096, 'v');
  server_.SetScript(
      {WithTrailing(Unavailable(), "from", "the failure"),
       WithTrailing(
           WithTrailing(
               WithTrailing(WithInitial(WithInitial(Succeed(), "first", large),
                                        "first-bin", "\x01\x02"),
                            "from", "the success"),
               "from", "the success as well"),
           "large", large)});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  EXPECT_TRUE(CallUnary(&context).status.ok());
  const Metadata initial = Copy(context.GetServerInitialMetadata());
  EXPECT_EQ(initial.count("first"), 1);
  EXPECT_EQ(initial.find("first")->second, large);
  EXPECT_EQ(initial.count("first-bin"), 1);
  EXPECT_EQ(initial.find("first-bin")->second, "\x01\x02");
  const Metadata trailing = Copy(context.GetServerTrailingMetadata());
  EXPECT_THAT(trailing, ElementsAre(std::pair("from", "the success"),
                                    std::pair("from", "the success as well"),
                                    std::pair("large", large)));
}

// gRFC A6 commits at headers. Here they commit only a call whose application
// may have seen them.
TEST_P(RetryTest, HeadersCommitACallOnlyIfTheCallerCanSeeThem) {
  server_.SetScript(
      {WithInitial(Unavailable("after headers"), "early", "1"), Succeed()});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  const CallResult result = CallUnary(&context);
  if (HeadersCommit(GetParam())) {
    EXPECT_EQ(result.status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(result.status.error_message(), "after headers");
    EXPECT_EQ(context.GetServerInitialMetadata().count("early"), 1);
    EXPECT_EQ(server_.calls(), 1);
    EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kCommitted)));
  } else {
    EXPECT_TRUE(result.status.ok());
    EXPECT_EQ(context.GetServerInitialMetadata().count("early"), 0);
    EXPECT_EQ(server_.calls(), 2);
    EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds()));
  }
}

TEST_P(RetryTest, AFailuresInitialMetadataReachesTheCaller) {
  server_.SetScript({WithInitial(Fail(grpc::StatusCode::NOT_FOUND), "i", "1")});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  EXPECT_EQ(CallUnary(&context).status.error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(context.GetServerInitialMetadata().count("i"), 1);
}

TEST_P(RetryTest, WhatHeldForOneAttemptDoesNotHoldForTheNext) {
  server_.SetScript({WithTrailing(Unavailable(), "grpc-retry-pushback-ms", "0"),
                     Fail(grpc::StatusCode::INTERNAL, "broken"), Succeed()});
  MakeChannel(Policy(4));
  const CallResult result = CallUnary();
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(result.status.error_message(), "broken");
  EXPECT_EQ(server_.calls(), 2);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Returns(Reason::kNotRetryable)));
}

TEST_P(RetryTest, OneCallLeavesNothingBehindForTheNext) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(2));
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext cancelled;
    cancelled.TryCancel();
    EXPECT_EQ(CallUnary(&cancelled).status.error_code(),
              grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(CallUnary().status.ok());
  }
}

TEST_P(RetryTest, AttemptsAboveFiveAreMade) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(8).NoBreaker());
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server_.calls(), 8);
}

// Codes beyond those of gRPC do arrive: a peer may send any number.
TEST_P(RetryTest, AnUnknownCodeCountsAsUnknown) {
  server_.SetScript({Fail(static_cast<grpc::StatusCode>(99), "odd")});
  MakeChannel(Policy(4));
  const CallResult result = CallUnary();
  grpc::ClientContext context;
  const CallResult bare = Call(GetParam(), BareChannel(), &context);
  EXPECT_EQ(result.status.error_code(), bare.status.error_code());
  EXPECT_EQ(result.status.error_message(), "odd");
  EXPECT_THAT(
      seen_->decisions(),
      ElementsAre(Returns(Reason::kNotRetryable, absl::StatusCode::kUnknown)));
}

TEST_P(RetryTest, AnUnknownCodeIsRetriedWhereUnknownIs) {
  server_.SetScript({Fail(static_cast<grpc::StatusCode>(99)),
                     Fail(static_cast<grpc::StatusCode>(17)), Succeed()});
  MakeChannel(Policy(4).Codes("\"UNKNOWN\""));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_EQ(server_.calls(), 3);
}

TEST_P(RetryTest, ResourceExhaustedFromTheServerIsRetriedIfListed) {
  server_.SetScript({Fail(grpc::StatusCode::RESOURCE_EXHAUSTED), Succeed()});
  MakeChannel(Policy(4).Codes("\"RESOURCE_EXHAUSTED\""));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_EQ(server_.calls(), 2);
}

TEST_P(RetryTest, ResourceExhaustedFromTheServerIsNotRetriedIfNotListed) {
  server_.SetScript({Fail(grpc::StatusCode::RESOURCE_EXHAUSTED), Succeed()});
  MakeChannel(Policy(4));
  EXPECT_EQ(CallUnary().status.error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kNotRetryable)));
}

TEST_P(RetryTest, AMessageTooLargeToSendIsNeverRetried) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxSendMessageSize(10);
  MakeChannel(Policy(4).Codes("\"RESOURCE_EXHAUSTED\""), arguments);
  const CallResult result = CallText(std::string(100, 'x'));
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(server_.calls(), 0);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kNotRetryable)));
  EXPECT_EQ(Snapshot().retries, 0);
}

TEST_P(RetryTest, AMessageTooLargeToReceiveIsNeverRetried) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(10);
  MakeChannel(Policy(4).Codes("\"RESOURCE_EXHAUSTED\""), arguments);
  const CallResult result = CallText(std::string(100, 'x'));  // comes back
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(server_.calls(), 1);
  EXPECT_EQ(Snapshot().retries, 0);
}

TEST_P(RetryTest, NeverConnectedIsRepeatedEvenIfNotIdempotent) {
  const ClosedPort port;
  target_ = port.address();
  MakeChannel(Policy(3).Guard("\"idempotency\": \"NON_IDEMPOTENT\""));
  const CallResult result = CallUnary();
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(result.status.error_message(),
              HasSubstr("failed to connect to all addresses"));
  EXPECT_THAT(
      seen_->decisions(),
      ElementsAre(Retries(), Retries(), Returns(Reason::kAttemptsExhausted)));
  EXPECT_THAT(seen_->decisions().front().peer, Not(HasSubstr("ipv4:")));
}

TEST_P(RetryTest, NeverConnectedIsRepeatedWithoutAnyConfig) {
  const ClosedPort port;
  target_ = port.address();
  MakeChannel("");
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(
      seen_->decisions(),
      ElementsAre(Retries(), Retries(), Returns(Reason::kAttemptsExhausted)));
}

// A server that passes on what its own backend's channel said.
TEST_P(RetryTest, ANeverConnectedFromFurtherDownIsNoProof) {
  server_.SetScript({Unavailable("failed to connect to all addresses; last")});
  MakeChannel(Policy(4).Guard("\"idempotency\": \"NON_IDEMPOTENT\""));
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server_.calls(), 1);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kNotIdempotent)));
}

TEST_P(RetryTest, RecoversWhenTheServerComesUpDuringTheCall) {
  const ClosedPort port;
  target_ = port.address();
  const auto clock = UseManualClock();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 10);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 10);
  MakeChannel(Policy(20).Backoff("1s").NoBreaker().Budget("\"ratio\": 1, "
                                                          "\"minRetries\": 99"),
              arguments);
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  const ScriptedServer late({Succeed()}, grpc::InsecureServerCredentials(),
                            port.port());
  ASSERT_TRUE(channel_->WaitForConnected(std::chrono::system_clock::now() +
                                         std::chrono::seconds(20)));
  clock->Advance(absl::Seconds(1));
  EXPECT_TRUE(call.Await().ok());
  EXPECT_EQ(late.calls(), 1);
}

// gRPC makes one of a channel without credentials.
TEST_P(RetryTest, ALameChannelGivesItsOwnStatus) {
  credentials_ = nullptr;
  MakeChannel(Policy(4));
  EXPECT_EQ(CallUnary().status.error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kNotRetryable)));
}

TEST_P(RetryTest, ABadPolicyMakesNoChannel) {
  const auto channel =
      CreateChannel(server_.address(), grpc::InsecureChannelCredentials(), [] {
        InterceptorOptions options;
        options.service_config_json =
            R"({"methodConfig": [{"retryPolicy": {"maxAttempts": "two"}}]})";
        return options;
      }());
  EXPECT_EQ(channel.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(channel.status().message()),
              HasSubstr("methodConfig[0].retryPolicy.maxAttempts: "));
}

// Where glibc has to read a file to find out where the stack is.
TEST(MainThreadTest, ABlockingCallIsRetriedThere) {
  ScriptedServer server({Unavailable(), Unavailable(), Succeed()});
  InterceptorOptions options;
  options.service_config_json = Policy(4);
  const auto channel = CreateChannel(
      server.address(), grpc::InsecureChannelCredentials(), options);
  ASSERT_TRUE(channel.ok());
  grpc::ClientContext context;
  testing::EchoRequest request;
  testing::EchoReply reply;
  request.set_text("hi");
  EXPECT_TRUE(testing::EchoService::NewStub(*channel)
                  ->Unary(&context, request, &reply)
                  .ok());
  EXPECT_EQ(reply.text(), "hi");
  EXPECT_EQ(server.calls(), 3);
}

// Real backoff, real clock: the wait is not shortened.
TEST_P(RetryTest, WaitsAtLeastTheBackoff) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(2).Backoff("0.050s"));
  EXPECT_TRUE(CallUnary().status.ok());
  const std::vector<SeenCall> seen = server_.seen();
  ASSERT_EQ(seen.size(), 2);
  EXPECT_GE(seen[1].at - seen[0].at, absl::Milliseconds(50));
  EXPECT_GE(Snapshot().backoff_time, absl::Milliseconds(50));
}

}  // namespace
}  // namespace retry_guard::end2end
