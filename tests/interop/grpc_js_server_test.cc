// Our client and a grpc-js server: what its answers make us do, and what it
// sees of that.

#include <set>

#include "absl/strings/numbers.h"
#include "tests/interop/node_fixture.h"

namespace retry_guard::interop {
namespace {

using end2end::HeadersCommit;
using end2end::Policy;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;
using testing::Retries;
using testing::RetriesAfter;
using testing::Returns;
using ::testing::SizeIs;
using testing::Succeeds;

constexpr char kUnsafe[] = R"("idempotency": "NON_IDEMPOTENT")";
constexpr char kExactPushback[] = R"("pushbackJitter": 0)";

class GrpcJsServerTest : public NodePeerTest<&NodeServer::Grpc> {
 protected:
  grpc::Status CallWithin(std::chrono::seconds deadline) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline);
    return CallUnary(&context).status;
  }
};
RETRY_GUARD_ON_EVERY_ROAD(GrpcJsServerTest);

std::vector<int> Numbers(const std::vector<PeerCall>& calls,
                         const std::string& key) {
  std::vector<int> numbers;
  for (const PeerCall& call : calls) {
    for (const std::string& value : call.Values(key)) {
      int number = -1;
      EXPECT_TRUE(absl::SimpleAtoi(value, &number)) << key << ": " << value;
      numbers.push_back(number);
    }
  }
  return numbers;
}

std::set<std::string> DistinctValues(const std::vector<PeerCall>& calls,
                                     const std::string& key) {
  std::set<std::string> distinct;
  for (const PeerCall& call : calls) {
    const std::vector<std::string> values = call.Values(key);
    EXPECT_THAT(values, SizeIs(1)) << key;
    distinct.insert(values.begin(), values.end());
  }
  return distinct;
}

TEST_P(GrpcJsServerTest, AFailureInTrailersOnlyIsRetried) {
  Connect(R"([{"code": 14, "message": "down"}, {}])", Policy(3));
  const auto [status, text] = CallUnary();
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(text, "hi");
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds()));
  EXPECT_THAT(Calls(), SizeIs(2));
}

TEST_P(GrpcJsServerTest, AFailureAfterHeadersIsRetriedUnlessTheyWereShown) {
  Connect(R"([{"code": 14, "initial": {"shown": "yes"}}, {}])", Policy(3));
  const grpc::Status status = CallUnary().status;
  if (HeadersCommit(GetParam())) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kCommitted)));
    EXPECT_THAT(Calls(), SizeIs(1));
  } else {
    EXPECT_TRUE(status.ok());
    EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds()));
    EXPECT_THAT(Calls(), SizeIs(2));
  }
}

TEST_P(GrpcJsServerTest, OnlyUnavailableIsRetriedUnlessMoreIsListed) {
  std::string script = "[";
  for (int code = 1; code <= 16; ++code) {
    script += "{\"code\": " + std::to_string(code) + "},";
  }
  Connect(script + "{}]", Policy(2).NoBreaker());
  for (int code = 1; code <= 16; ++code) {
    if (code == grpc::StatusCode::UNAVAILABLE) continue;
    seen_->Clear();
    // The answer after UNAVAILABLE's is that to its own retry.
    const bool after_retry = code == grpc::StatusCode::DATA_LOSS;
    EXPECT_EQ(CallUnary().status.error_code(), code);
    if (after_retry) {
      EXPECT_THAT(seen_->decisions(),
                  ElementsAre(Retries(), Returns(Reason::kNotRetryable)));
    } else {
      EXPECT_THAT(seen_->decisions(),
                  ElementsAre(Returns(Reason::kNotRetryable)))
          << code;
    }
  }
  EXPECT_THAT(Calls(), SizeIs(16));
}

TEST_P(GrpcJsServerTest, EveryAttemptSaysWhoRetriesAndWhatTimeIsLeft) {
  options_.layer_name = "the tests";
  Connect(R"([{"code": 14}, {"code": 14}, {}])", Policy(3));
  EXPECT_TRUE(CallWithin(std::chrono::seconds(20)).ok());
  const std::vector<PeerCall> calls = Calls();
  ASSERT_THAT(calls, SizeIs(3));
  EXPECT_THAT(DistinctValues(calls, "retry-owner"), ElementsAre("the tests"));
  EXPECT_THAT(Numbers(calls, "retry-attempt"), ElementsAre(1, 2, 3));
  // gRPC's own key only from the second attempt on.
  EXPECT_THAT(calls[0].Values("grpc-previous-rpc-attempts"), IsEmpty());
  EXPECT_THAT(Numbers(calls, "grpc-previous-rpc-attempts"), ElementsAre(1, 2));
  const std::vector<int> remaining = Numbers(calls, "retry-remaining-ms");
  ASSERT_THAT(remaining, SizeIs(3));
  EXPECT_LE(remaining[0], 20000);
  EXPECT_GE(remaining[0], remaining[1]);
  EXPECT_GE(remaining[1], remaining[2]);
  EXPECT_GT(remaining[2], 0);
}

TEST_P(GrpcJsServerTest, EveryAttemptHasADeadlineOfItsOwn) {
  Connect(R"([{"code": 14}, {}])",
          Policy(3).Guard(R"("perAttemptTimeout": "5s")"));
  EXPECT_TRUE(CallWithin(std::chrono::seconds(20)).ok());
  const std::vector<PeerCall> calls = Calls();
  EXPECT_THAT(Numbers(calls, ":time-left-ms"),
              ElementsAre(Le(5100), Le(5100)));  // it is rounded up on the wire
  EXPECT_THAT(Numbers(calls, "retry-remaining-ms"),
              ElementsAre(Ge(5100), Ge(5100)));
}

TEST_P(GrpcJsServerTest, AnIdempotencyKeyIsOnePerCall) {
  Connect(R"([{"code": 14}, {}, {"code": 14}, {}])",
          Policy(3).Guard(R"("idempotencyKey": true)"));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_TRUE(CallUnary().status.ok());
  const std::vector<PeerCall> calls = Calls();
  ASSERT_THAT(calls, SizeIs(4));
  EXPECT_THAT(DistinctValues({calls[0], calls[1]}, "idempotency-key"),
              SizeIs(1));
  EXPECT_THAT(DistinctValues(calls, "idempotency-key"), SizeIs(2));
}

TEST_P(GrpcJsServerTest, PushbackSetsTheDelay) {
  Connect(R"([{"code": 14, "trailing": {"grpc-retry-pushback-ms": "40"}}, {}])",
          Policy(3).Guard(kExactPushback));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_THAT(
      seen_->decisions(),
      ElementsAre(RetriesAfter(Eq(absl::Milliseconds(40))), Succeeds()));
}

TEST_P(GrpcJsServerTest, PushbackThatIsNoDelayMeansStop) {
  Connect(R"([{"code": 14, "trailing": {"grpc-retry-pushback-ms": "-1"}},
              {"code": 14, "trailing": {"grpc-retry-pushback-ms": "soon"}}])",
          Policy(3));
  for (int i = 0; i < 2; ++i) {
    seen_->Clear();
    EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_THAT(seen_->decisions(),
                ElementsAre(Returns(Reason::kServerSaidStop)));
  }
  EXPECT_THAT(Calls(), SizeIs(2));
}

TEST_P(GrpcJsServerTest, RetryInfoSetsTheDelay) {
  Connect(R"([{"code": 14, "message": "busy", "retryInfoMs": 60}, {}])",
          Policy(3).Guard(kExactPushback));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_THAT(
      seen_->decisions(),
      ElementsAre(RetriesAfter(Eq(absl::Milliseconds(60))), Succeeds()));
}

TEST_P(GrpcJsServerTest, ItsConsentIsEnoughForWhatMustNotRunTwice) {
  Connect(R"([{"code": 14, "retryInfoMs": 1},
              {"code": 14, "trailing": {"grpc-retry-pushback-ms": "1"}},
              {"code": 14},
              {}])",
          Policy(5).Guard(kUnsafe));
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Retries(),
                                              Returns(Reason::kNotIdempotent)));
  EXPECT_THAT(Calls(), SizeIs(3));
}

TEST_P(GrpcJsServerTest, ItsConsentIsNeededWithoutAnyConfig) {
  Connect(R"([{"code": 14, "retryInfoMs": 1}, {}, {"code": 14}])", "");
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_FALSE(CallUnary().status.ok());
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds(),
                                              Returns(Reason::kNotIdempotent)));
}

TEST_P(GrpcJsServerTest, ResourceExhaustedIsRetriedOnlyWithAHint) {
  Connect(R"([{"code": 8, "retryInfoMs": 1}, {}, {"code": 8}])", Policy(3));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_EQ(CallUnary().status.error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds(),
                                              Returns(Reason::kNotRetryable)));
}

TEST_P(GrpcJsServerTest, AbortedWithAHintIsATwinOfAKeyedCall) {
  constexpr char kAborted[] =
      R"([{"code": 10, "trailing": {"grpc-retry-pushback-ms": "1"}}, {}])";
  Connect(kAborted, Policy(3).Guard(R"("idempotencyKey": true)"));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_THAT(DistinctValues(Calls(), "idempotency-key"), SizeIs(1));

  Connect(kAborted, Policy(3));
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::ABORTED);
}

TEST_P(GrpcJsServerTest, RetryAfterInTrailersSetsThePace) {
  Connect(R"([{"code": 14, "trailing": {"retry-after": "1"}}, {}])", Policy(3));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(RetriesAfter(AllOf(Ge(absl::Seconds(1)),
                                             Le(absl::Seconds(1.2)))),
                          Succeeds()));
}

TEST_P(GrpcJsServerTest, RetryAfterBeyondTheDeadlineEndsTheCallAtOnce) {
  Connect(R"([{"code": 14, "message": "later", "trailing":
               {"retry-after": "30"}}])",
          Policy(3));
  const grpc::Status status = CallWithin(std::chrono::seconds(20));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "later");
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kDeadlineTooClose)));
}

}  // namespace
}  // namespace retry_guard::interop
