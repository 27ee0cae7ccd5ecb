// Answers that are not a gRPC server's own: HTTP errors as proxies give them,
// refused and broken streams, connections that go away. They are made by Node's
// HTTP/2, one at a time and exactly; real proxies are in proxy_test.cc.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/interop/node_fixture.h"

namespace retry_guard::interop {
namespace {

using end2end::HeadersCommit;
using end2end::Policy;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::Ge;
using ::testing::Le;
using testing::OfAttempt;
using testing::RecordedDecision;
using testing::Retries;
using testing::RetriesAfter;
using testing::Returns;
using ::testing::SizeIs;
using testing::Succeeds;

constexpr char kUnsafe[] = R"("idempotency": "NON_IDEMPOTENT")";

// A retry that is not the immediate re-send of a refused stream.
auto RetriesByPolicy() {
  return AllOf(Retries(), Field(&RecordedDecision::resend, false));
}
auto Resends() {
  return AllOf(RetriesAfter(absl::ZeroDuration()),
               Field(&RecordedDecision::resend, true));
}
auto Saying(const std::string& message) {
  return Field("message", &RecordedDecision::message, message);
}

// Scripts. To each call one of these answers, ...
std::string Each(const std::vector<std::string>& answers) {
  return absl::StrCat("[", absl::StrJoin(answers, ", "), "]");
}
// ... and a good one to its retry.
std::string EachThenSuccess(const std::vector<std::string>& answers) {
  return absl::StrCat("[", absl::StrJoin(answers, ", {}, "), ", {}]");
}

class Http2AnswersTest : public NodePeerTest<&NodeServer::Http2> {
 protected:
  std::vector<RecordedDecision> DecisionsOfNextCall(
      const std::string& method = "Unary") {
    seen_->Clear();
    CallMethod(method);
    return seen_->decisions();
  }
};
RETRY_GUARD_ON_EVERY_ROAD(Http2AnswersTest);

std::string HttpError(int status) {
  return absl::StrCat(R"({"headers": {":status": )", status,
                      R"(, "content-type": "text/html", "retry-after": "30"},
                          "body": "<h1>sorry</h1>"})");
}
std::vector<std::string> HttpErrors(const std::vector<int>& statuses) {
  std::vector<std::string> answers;
  for (const int status : statuses) answers.push_back(HttpError(status));
  return answers;
}
const std::vector<int>& GatewayErrors() {
  static const auto* const kErrors = new std::vector<int>{502, 503, 504, 429};
  return *kErrors;
}

// Its Retry-After is lost in core: the delay is our own backoff.
TEST_P(Http2AnswersTest, AGatewayErrorIsRetriedAtOurOwnPace) {
  Connect(EachThenSuccess(HttpErrors(GatewayErrors())), Policy(3));
  for (const int status : GatewayErrors()) {
    EXPECT_THAT(
        DecisionsOfNextCall(),
        ElementsAre(AllOf(RetriesAfter(Le(absl::Milliseconds(1))),
                          Saying(absl::StrCat(
                              "Received http2 header with status: ", status))),
                    Succeeds()));
  }
}

// The proxy cannot know whether the backend has run the call.
TEST_P(Http2AnswersTest, AGatewayErrorIsNoConsent) {
  for (const std::string& config : {Policy(3).Guard(kUnsafe).Json(),
                                    // None at all.
                                    std::string()}) {
    SCOPED_TRACE(config);
    Connect(Each(HttpErrors(GatewayErrors())), config);
    for (const int status : GatewayErrors()) {
      EXPECT_THAT(DecisionsOfNextCall(),
                  ElementsAre(Returns(Reason::kNotIdempotent,
                                      absl::StatusCode::kUnavailable)))
          << status;
    }
    EXPECT_THAT(Calls(), SizeIs(GatewayErrors().size()));
  }
}

TEST_P(Http2AnswersTest, OtherHttpErrorsAreNotRetried) {
  const std::vector<int> statuses = {400, 401, 403, 404, 500};
  Connect(Each(HttpErrors(statuses)), Policy(3));
  for (const int status : statuses) {
    EXPECT_THAT(DecisionsOfNextCall(),
                ElementsAre(Returns(Reason::kNotRetryable)))
        << status;
  }
}

TEST_P(Http2AnswersTest, ARateLimitDoesNotOpenTheBreaker) {
  const std::string config =
      Policy(1).Breaker(R"("consecutiveFailures": 3, "openFor": "60s")");
  Connect("[" + HttpError(429) + "]", config);
  for (int i = 0; i < 6; ++i) CallUnary();
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
  EXPECT_THAT(Calls(), SizeIs(6));

  Connect("[" + HttpError(503) + "]", config);
  for (int i = 0; i < 6; ++i) CallUnary();
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kOpen);
  EXPECT_THAT(Calls(), SizeIs(3));
}

std::string GrpcError(const std::string& http_status,
                      const std::string& retry_after) {
  return absl::StrCat(R"({"headers": {":status": )", http_status,
                      R"(, "content-type": "application/grpc",
                          "grpc-status": "14", "retry-after": ")",
                      retry_after, "\"}}");
}

// What a proxy has to be taught, for its Retry-After to be heard.
TEST_P(Http2AnswersTest, RetryAfterIsHeardWhenTheAnswerIsShapedLikeGrpc) {
  Connect(Each({GrpcError("200", "3600"), GrpcError("503", "3600"),
                GrpcError("200", "0"), "{}", GrpcError("503", "0"), "{}"}),
          Policy(3));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(DecisionsOfNextCall(),
                ElementsAre(Returns(Reason::kServerSaidStop)));
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(
        DecisionsOfNextCall(),
        ElementsAre(RetriesAfter(Le(absl::Milliseconds(1))), Succeeds()));
  }
}

TEST_P(Http2AnswersTest, RetryAfterInTrailersComesBeforeThatOfHeaders) {
  Connect(R"([{"headers": {":status": 200, "content-type": "application/grpc",
                           "retry-after": "1"},
               "trailers": {"grpc-status": "14", "retry-after": "3600"}}])",
          Policy(3));
  EXPECT_THAT(DecisionsOfNextCall(),
              ElementsAre(Returns(HeadersCommit(GetParam())
                                      ? Reason::kCommitted
                                      : Reason::kServerSaidStop)));
}

TEST_P(Http2AnswersTest, WhatHasNoProperStatusIsUnknownAndNotRetried) {
  const std::string none =
      R"({"headers": {":status": 200, "content-type": "application/grpc"}})";
  const std::string code99 =
      R"({"headers": {":status": 200, "content-type": "application/grpc",
                      "grpc-status": "99"}})";
  Connect(Each({none, code99}), Policy(3));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(DecisionsOfNextCall(),
                ElementsAre(Returns(Reason::kNotRetryable,
                                    absl::StatusCode::kUnknown)));
  }
}

// Even without any retries.
TEST_P(Http2AnswersTest, ARefusedStreamIsSentAgainAtOnce) {
  Connect(EachThenSuccess({R"({"reset": 7})", R"({"reset": 7})"}), Policy(1));
  for (const std::string method : {"Unary", "Idempotent"}) {
    EXPECT_THAT(DecisionsOfNextCall(method), ElementsAre(Resends(), Succeeds()))
        << method;
  }
  EXPECT_THAT(Calls(), SizeIs(4));
}

// HAProxy says the same of a call that its backend has executed.
TEST_P(Http2AnswersTest, ARefusedStreamIsNotSentAgainIfItMustNotRunTwice) {
  Connect(R"([{"reset": 7}])", Policy(3).Guard(kUnsafe));
  EXPECT_THAT(DecisionsOfNextCall(),
              ElementsAre(Returns(Reason::kNotIdempotent)));
  EXPECT_THAT(Calls(), SizeIs(1));
}

// INTERNAL_ERROR, CANCEL and ENHANCE_YOUR_CALM; CANCELLED is not what the
// caller asked for.
TEST_P(Http2AnswersTest, OtherResetsAreNoRefusals) {
  Connect(R"([{"reset": 2}, {"reset": 8}, {"reset": 11}])", Policy(3));
  for (const auto code :
       {absl::StatusCode::kInternal, absl::StatusCode::kCancelled,
        absl::StatusCode::kResourceExhausted}) {
    EXPECT_THAT(DecisionsOfNextCall(),
                ElementsAre(Returns(Reason::kNotRetryable, code)));
  }
}

// The first call is answered on stream 1 of its connection; then comes a GOAWAY
// that does not cover the stream of the second.
std::string GoawayForTheSecondCall(const std::string& then) {
  return R"([{}, {"goaway": 1}, )" + then + "]";
}

TEST_P(Http2AnswersTest, AGoawayBeforeTheStreamIsSentAgainAtOnce) {
  Connect(GoawayForTheSecondCall("{}"), Policy(1));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Succeeds(), Resends(), Succeeds()));
  EXPECT_THAT(Calls(), SizeIs(3));
}

TEST_P(Http2AnswersTest, AGoawayIsNotEnoughForWhatMustNotRunTwice) {
  Connect(GoawayForTheSecondCall("{}"), Policy(3).Guard(kUnsafe));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_FALSE(CallUnary().status.ok());
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Succeeds(), Returns(Reason::kNotIdempotent)));
  EXPECT_THAT(Calls(), SizeIs(2));
}

TEST_P(Http2AnswersTest, ASecondRefusalIsRetriedByPolicy) {
  Connect(GoawayForTheSecondCall(R"({"reset": 7}, {})"), Policy(3));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_THAT(seen_->decisions(), ElementsAre(Succeeds(), Resends(),
                                              RetriesByPolicy(), Succeeds()));
}

// In the last one the server may have run the stream, which the GOAWAY covers
// whether it is the connection's first or second.
std::vector<std::string> BrokenConnections() {
  return {R"({"tcp": "reset"})", R"({"tcp": "close"})",
          R"({"goaway": 3, "tcp": "close"})"};
}

TEST_P(Http2AnswersTest, AConnectionThatBreaksMidCallIsRetriedByPolicy) {
  Connect(EachThenSuccess(BrokenConnections()), Policy(5));
  for (const std::string& answer : BrokenConnections()) {
    SCOPED_TRACE(answer);
    const std::vector<RecordedDecision> decisions = DecisionsOfNextCall();
    ASSERT_THAT(decisions, SizeIs(Ge(2)));
    EXPECT_THAT(decisions.front(), RetriesByPolicy());
    // A retry may find the connection being taken down, and is not sent then.
    EXPECT_THAT(decisions.back(), Succeeds());
  }
  EXPECT_THAT(Calls(), SizeIs(2 * BrokenConnections().size()));
}

TEST_P(Http2AnswersTest, AConnectionThatBreaksMidCallIsNoConsent) {
  for (const std::string& config : {Policy(3).Guard(kUnsafe).Json(),
                                    // None at all.
                                    std::string()}) {
    SCOPED_TRACE(config);
    for (const std::string& answer : BrokenConnections()) {
      SCOPED_TRACE(answer);
      Connect(Each({answer}), config);
      EXPECT_THAT(DecisionsOfNextCall(),
                  ElementsAre(Returns(Reason::kNotIdempotent,
                                      absl::StatusCode::kUnavailable)));
      EXPECT_THAT(Calls(), SizeIs(1));
    }
  }
}

}  // namespace
}  // namespace retry_guard::interop
