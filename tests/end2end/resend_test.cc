// A stream that the server has refused unseen gets one immediate re-send, which
// takes the place of core's transparent retry.

#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using testing::OfAttempt;
using testing::RecordedDecision;
using testing::Retries;
using testing::RetriesAfter;
using testing::Returns;
using testing::Succeeds;

// What core makes of a GOAWAY that came before the stream was looked at. Told
// by a server in words alone, it is the same to us.
Reaction Refuse() { return Unavailable("GOAWAY received"); }

auto Resends() {
  return AllOf(RetriesAfter(absl::ZeroDuration()),
               Field(&RecordedDecision::resend, true));
}

class ResendTest : public EndToEndTest {};
RETRY_GUARD_IN_EVERY_STYLE(ResendTest);

TEST_P(ResendTest, IsMadeAtOnceEvenWhereNoRetryIs) {
  server_.SetScript({Refuse(), Succeed()});
  MakeChannel(Policy(1));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_THAT(seen_->decisions(), ElementsAre(Resends(), Succeeds()));
}

TEST_P(ResendTest, IsMadeOncePerCall) {
  server_.SetScript({Refuse()});
  MakeChannel(Policy(1));
  EXPECT_EQ(CallUnary().status.error_message(), "GOAWAY received");
  EXPECT_EQ(server_.calls(), 2);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Resends(), Returns(Reason::kAttemptsExhausted)));
}

TEST_P(ResendTest, IsNoAttemptOfTheConfigs) {
  server_.SetScript({Unavailable(), Refuse(), Unavailable(), Succeed()});
  MakeChannel(Policy(3));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_EQ(server_.calls(), 4);
  EXPECT_EQ(Snapshot().attempts_to_success[4], 1);
}

TEST_P(ResendTest, IsMadeWhateverTheLayer) {
  for (const std::string layer : {"NEVER", "OUTERMOST"}) {
    server_.SetScript({Refuse(), Succeed()});
    MakeChannel(Policy(4).Guard("\"layer\": \"" + layer + "\""));
    grpc::ClientContext context;
    context.AddMetadata("retry-owner", "the gateway");
    EXPECT_TRUE(CallUnary(&context).status.ok()) << layer;
    EXPECT_EQ(server_.calls(), 2);
  }
}

TEST_P(ResendTest, IsMadeWithoutAnyConfig) {
  server_.SetScript({Refuse(), Succeed()});
  MakeChannel("");
  EXPECT_TRUE(CallUnary().status.ok());
}

// Strong, but no proof.
TEST_P(ResendTest, IsNotMadeForWhatMustNotRunTwice) {
  server_.SetScript({Refuse(), Succeed()});
  MakeChannel(Policy(4).Guard("\"idempotency\": \"NON_IDEMPOTENT\""));
  EXPECT_FALSE(CallUnary().status.ok());
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kNotIdempotent)));
}

TEST_P(ResendTest, TakesATokenOfTheBudget) {
  server_.SetScript({Refuse(), Succeed()});
  MakeChannel(Policy(1).Budget("\"ratio\": 0, \"minRetries\": 0"));
  EXPECT_FALSE(CallUnary().status.ok());
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kBudgetExhausted)));
}

TEST_P(ResendTest, IsSwitchedOffWithTheRetries) {
  server_.SetScript({Refuse(), Succeed()});
  MakeChannel(Policy(4));
  options_.guard->SetRetriesEnabled(false);
  EXPECT_FALSE(CallUnary().status.ok());
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kDisabled)));
}

// A server that has answered has seen the stream.
TEST_P(ResendTest, IsNotMadeForAnAnswerWithMetadata) {
  server_.SetScript({WithTrailing(Refuse(), "by", "hand"), Succeed()});
  MakeChannel(Policy(1));
  EXPECT_FALSE(CallUnary().status.ok());
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kAttemptsExhausted)));
}

}  // namespace
}  // namespace retry_guard::end2end
