// What may be run twice.

#include <set>

#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;

class IdempotencyTest : public EndToEndTest {};
RETRY_GUARD_IN_EVERY_STYLE(IdempotencyTest);

TEST_P(IdempotencyTest, NonIdempotentIsNotRepeatedWhateverIsListed) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4).Guard("\"idempotency\": \"NON_IDEMPOTENT\""));
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server_.calls(), 1);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kNotIdempotent)));
}

TEST_P(IdempotencyTest, TheConfigsWordOutweighsTheProtos) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4).Guard("\"idempotency\": \"NON_IDEMPOTENT\""));
  EXPECT_EQ(CallMethod("Idempotent").status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server_.calls(), 1);
}

TEST_P(IdempotencyTest, ARetryPolicyIsConsentForTheCodesThatItLists) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4));
  EXPECT_TRUE(CallUnary().status.ok());
}

TEST_P(IdempotencyTest, WithoutARetryPolicyOnlyWhatIsSafeIsRepeated) {
  MakeChannel(Policy::WithoutRetryPolicy());
  server_.SetScript({Unavailable(), Succeed()});
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kNotIdempotent)));
  for (const std::string method : {"Idempotent", "ReadOnly"}) {
    server_.SetScript({Unavailable(), Succeed()});
    EXPECT_TRUE(CallMethod(method).status.ok()) << method;
    EXPECT_EQ(server_.calls(), 2);
  }
}

TEST_P(IdempotencyTest, TheConfigCanVouchForAMethod) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(
      Policy::WithoutRetryPolicy().Guard("\"idempotency\": \"IDEMPOTENT\""));
  EXPECT_TRUE(CallUnary().status.ok());
}

TEST_P(IdempotencyTest, AKeyIsTheSameOnEveryAttemptAndNewForEveryCall) {
  MakeChannel(Policy(4).Guard("\"idempotencyKey\": true"));
  std::set<std::string> keys;
  for (int call = 0; call < 3; ++call) {
    server_.SetScript({Unavailable(), Unavailable(), Succeed()});
    EXPECT_TRUE(CallUnary().status.ok());
    const std::vector<SeenCall> seen = server_.seen();
    ASSERT_EQ(seen.size(), 3);
    const std::vector<std::string> first = seen[0].Values("idempotency-key");
    EXPECT_THAT(first,
                ElementsAre(MatchesRegex(
                    "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-"
                    "[0-9a-f]{12}")));
    EXPECT_EQ(seen[1].Values("idempotency-key"), first);
    EXPECT_EQ(seen[2].Values("idempotency-key"), first);
    keys.insert(first.begin(), first.end());
  }
  EXPECT_EQ(keys.size(), 3);
}

TEST_P(IdempotencyTest, AKeyMakesACallSafe) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy::WithoutRetryPolicy().Guard("\"idempotencyKey\": true"));
  EXPECT_TRUE(CallUnary().status.ok());
}

TEST_P(IdempotencyTest, TheCallersOwnKeyIsKept) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy::WithoutRetryPolicy().Guard("\"idempotencyKey\": true"));
  grpc::ClientContext context;
  context.AddMetadata("idempotency-key", "mine");
  EXPECT_TRUE(CallUnary(&context).status.ok());
  for (const SeenCall& attempt : server_.seen()) {
    EXPECT_THAT(attempt.Values("idempotency-key"), ElementsAre("mine"));
  }
}

TEST_P(IdempotencyTest, WithoutTheOptionNoKeyIsAdded) {
  MakeChannel(Policy(4));
  CallUnary();
  EXPECT_THAT(server_.seen().at(0).Values("idempotency-key"), IsEmpty());
}

// Aborted by a twin of the same request that is still running: same key, later.
TEST_P(IdempotencyTest, AbortedIsRepeatedWithAKeyIfTheServerSaysWhen) {
  const Reaction aborted = WithTrailing(Fail(grpc::StatusCode::ABORTED),
                                        "grpc-retry-pushback-ms", "1");
  server_.SetScript({aborted, Succeed()});
  MakeChannel(Policy(4));
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::ABORTED);
  MakeChannel(Policy(4).Guard("\"idempotencyKey\": true"));
  server_.SetScript({aborted, Succeed()});
  EXPECT_TRUE(CallUnary().status.ok());
}

}  // namespace
}  // namespace retry_guard::end2end
