// What a server says about repeating its own failure.

#include "absl/strings/str_cat.h"
#include "retry_guard/rpc_status.pb.h"
#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::Ge;
using ::testing::Le;
using ::testing::Lt;
using testing::Retries;
using testing::RetriesAfter;
using testing::Returns;
using testing::Succeeds;

Reaction PushBack(const std::string& value, Reaction reaction = Unavailable()) {
  return WithTrailing(std::move(reaction), "grpc-retry-pushback-ms", value);
}

std::string RetryInfo(int64_t seconds) {
  wire::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(seconds);
  wire::RpcStatus status;
  auto* const any = status.add_details();
  any->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  any->set_value(info.SerializeAsString());
  return status.SerializeAsString();
}

class PushbackTest : public EndToEndTest {
 protected:
  // A call that fails once as told and waits then; how long it waits.
  absl::Duration WaitAfter(const Reaction& reaction, const Policy& policy) {
    server_.SetScript({reaction, Succeed()});
    const auto clock = UseManualClock();
    MakeChannel(policy);
    grpc::ClientContext context;
    StartedCall call = StartUnary(&context);
    if (!clock->AwaitTimers(1)) return absl::InfiniteDuration();
    const absl::Duration wait = clock->next_timer() - clock->Now();
    EXPECT_THAT(seen_->decisions(), ElementsAre(RetriesAfter(Eq(wait))));
    clock->Advance(wait - absl::Nanoseconds(1));
    EXPECT_EQ(server_.calls(), 1);
    clock->Advance(absl::Nanoseconds(1));
    EXPECT_TRUE(call.Await().ok());
    EXPECT_EQ(server_.calls(), 2);
    return wait;
  }
};
RETRY_GUARD_IN_EVERY_STYLE(PushbackTest);

TEST_P(PushbackTest, APositiveOneSetsTheDelay) {
  EXPECT_EQ(
      WaitAfter(PushBack("7000"), Policy(4).Guard("\"pushbackJitter\": 0")),
      absl::Seconds(7));
}

TEST_P(PushbackTest, IsNeverShortenedAndStretchedByAFifthAtMost) {
  EXPECT_THAT(WaitAfter(PushBack("7000"), Policy(4)),
              AllOf(Ge(absl::Seconds(7)), Le(absl::Seconds(8.4))));
}

TEST_P(PushbackTest, OfZeroIsSpreadOverTheInitialBackoff) {
  EXPECT_THAT(WaitAfter(PushBack("0"), Policy(4).Backoff("10s")),
              AllOf(Ge(absl::ZeroDuration()), Lt(absl::Seconds(10))));
}

TEST_P(PushbackTest, TheLadderStartsAnewAfterIt) {
  const auto clock = UseManualClock();
  server_.SetScript(
      {Unavailable(), PushBack("7000"), Unavailable(), Unavailable()});
  MakeChannel(R"({"methodConfig": [{"name": [{}], "retryPolicy": {
      "maxAttempts": 4, "initialBackoff": "1s", "maxBackoff": "100s",
      "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]},
      "retryGuard": {"jitter": "NONE", "pushbackJitter": 0}}]})");
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  for (const absl::Duration wait :
       {absl::Seconds(1), absl::Seconds(7), absl::Seconds(1)}) {
    ASSERT_TRUE(clock->AwaitTimers(1));
    EXPECT_EQ(clock->next_timer() - clock->Now(), wait);
    clock->Advance(wait);
  }
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server_.calls(), 4);
}

TEST_P(PushbackTest, ANegativeOrMalformedOneMeansStop) {
  MakeChannel(Policy(4).NoBreaker());
  for (const std::string value :
       {"-1", "-2147483648", "abc", "", "1.5", "99999999999", "1e3", "0x5"}) {
    SCOPED_TRACE(value);
    seen_->Clear();
    server_.SetScript({PushBack(value), Succeed()});
    EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(server_.calls(), 1);
    EXPECT_THAT(seen_->decisions(),
                ElementsAre(Returns(Reason::kServerSaidStop)));
  }
}

TEST_P(PushbackTest, AboveMaxPushbackMeansStop) {
  MakeChannel(Policy(4).Guard("\"maxPushback\": \"2s\""));
  server_.SetScript({PushBack("2001"), Succeed()});
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kServerSaidStop)));
}

TEST_P(PushbackTest, BeyondTheDeadlineReturnsTheAnswerAtOnce) {
  MakeChannel(Policy(4));
  server_.SetScript({PushBack("50000"), Succeed()});
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  EXPECT_EQ(CallUnary(&context).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kDeadlineTooClose)));
}

TEST_P(PushbackTest, DoesNotLiftTheLimitOfAttempts) {
  MakeChannel(Policy(2));
  server_.SetScript({PushBack("0")});
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server_.calls(), 2);
}

TEST_P(PushbackTest, DoesNotMakeACodeRetryable) {
  MakeChannel(Policy(4));
  server_.SetScript({PushBack("0", Fail(grpc::StatusCode::NOT_FOUND))});
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kNotRetryable)));
}

TEST_P(PushbackTest, MakesResourceExhaustedRetryable) {
  MakeChannel(Policy(4));
  server_.SetScript(
      {PushBack("0", Fail(grpc::StatusCode::RESOURCE_EXHAUSTED)), Succeed()});
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_EQ(server_.calls(), 2);
}

TEST_P(PushbackTest, IsConsentForACallThatIsNotIdempotent) {
  MakeChannel(Policy(4).Guard("\"idempotency\": \"NON_IDEMPOTENT\""));
  server_.SetScript({PushBack("0"), Unavailable(), Succeed()});
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Returns(Reason::kNotIdempotent)));
}

TEST_P(PushbackTest, IsConsentWithoutAnyConfig) {
  MakeChannel("");
  server_.SetScript({PushBack("1"), Succeed()});
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_EQ(server_.calls(), 2);
}

TEST_P(PushbackTest, RetryInfoInTheDetailsSetsTheDelay) {
  const Reaction reaction =
      Fail(grpc::StatusCode::UNAVAILABLE, "busy", RetryInfo(3));
  EXPECT_EQ(WaitAfter(reaction, Policy(4).Guard("\"pushbackJitter\": 0")),
            absl::Seconds(3));
}

TEST_P(PushbackTest, RetryInfoNeverShortensTheBackoff) {
  const Reaction reaction =
      Fail(grpc::StatusCode::UNAVAILABLE, "busy", RetryInfo(3));
  EXPECT_EQ(WaitAfter(reaction,
                      Policy(4).Backoff("5s").Guard("\"pushbackJitter\": 0")),
            absl::Seconds(5));
}

TEST_P(PushbackTest, RetryAfterSetsThePaceButIsNoConsent) {
  const Reaction reaction = WithTrailing(Unavailable(), "retry-after", "4");
  EXPECT_EQ(WaitAfter(reaction, Policy(4).Guard("\"pushbackJitter\": 0")),
            absl::Seconds(4));
  seen_->Clear();
  server_.SetScript({reaction, Succeed()});
  MakeChannel("");
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kNotIdempotent)));
}

// Core keeps one value of this key; of two it is the last, as if the first had
// not been sent. A stop among them is obeyed if it is that one.
TEST_P(PushbackTest, OfTwoTheServersLastWordCounts) {
  MakeChannel(Policy(4));
  server_.SetScript({PushBack("-1", PushBack("1")), Succeed()});
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kServerSaidStop)));
}

}  // namespace
}  // namespace retry_guard::end2end
