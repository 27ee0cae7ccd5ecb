// Exactly one layer of a chain retries, and says so to those below. The kill
// switch, too.

#include <errno.h>

#include "absl/strings/numbers.h"
#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::IsEmpty;
using ::testing::Le;
using testing::OfAttempt;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;

// The one value of `key`, as a number; -1 if there is none, or not one.
int64_t Number(const SeenCall& call, const std::string& key) {
  const std::vector<std::string> values = call.Values(key);
  int64_t number = -1;
  if (values.size() != 1 || !absl::SimpleAtoi(values[0], &number)) return -1;
  return number;
}

class LayerTest : public EndToEndTest {
 protected:
  void SetUp() override { options_.layer_name = "this layer"; }

  static void MarkByLayerAbove(grpc::ClientContext* context) {
    context->AddMetadata("retry-owner", "the gateway");
    context->AddMetadata("retry-attempt", "2");
    context->AddMetadata("retry-remaining-ms", "1234567");
  }

  static void ExpectNoClaim(const SeenCall& call) {
    EXPECT_THAT(call.Values("retry-owner"), IsEmpty());
    EXPECT_THAT(call.Values("retry-attempt"), IsEmpty());
    EXPECT_THAT(call.Values("retry-remaining-ms"), IsEmpty());
  }

  static void SetDeadline(grpc::ClientContext* context, int seconds) {
    context->set_deadline(std::chrono::system_clock::now() +
                          std::chrono::seconds(seconds));
  }
};
TEST_P(LayerTest, AStaleAttemptCountOfTheCallersIsNotPassedOn) {
  MakeChannel(Policy(3));
  grpc::ClientContext context;
  context.AddMetadata("grpc-previous-rpc-attempts", "7");
  EXPECT_TRUE(CallUnary(&context).status.ok());
  EXPECT_THAT(server_.seen().front().Values("grpc-previous-rpc-attempts"),
              ::testing::IsEmpty());
}

TEST_P(LayerTest, ANameThatCannotTravelIsRefused) {
  options_.layer_name = "caf\xc3\xa9";
  const auto factory = InterceptorFactory::Create(options_);
  EXPECT_EQ(factory.status().code(), absl::StatusCode::kInvalidArgument);
}

RETRY_GUARD_IN_EVERY_STYLE(LayerTest);

TEST_P(LayerTest, TheOwnerMarksEveryAttempt) {
  const auto clock = UseManualClock();
  server_.SetScript({Unavailable(), Unavailable(), Succeed()});
  MakeChannel(Policy(4).Backoff("5s"));
  grpc::ClientContext context;
  SetDeadline(&context, 60);
  StartedCall call = StartUnary(&context);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(clock->AwaitTimers(1));
    clock->Advance(absl::Seconds(5));
  }
  ASSERT_TRUE(call.Await().ok());
  const std::vector<SeenCall> seen = server_.seen();
  ASSERT_EQ(seen.size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(seen[i].Values("retry-owner"), ElementsAre("this layer"));
    EXPECT_EQ(Number(seen[i], "retry-attempt"), i + 1);
    if (i == 0) {
      EXPECT_THAT(seen[i].Values("grpc-previous-rpc-attempts"), IsEmpty());
    } else {
      EXPECT_EQ(Number(seen[i], "grpc-previous-rpc-attempts"), i);
    }
  }
  const int64_t remaining = Number(seen[0], "retry-remaining-ms");
  EXPECT_THAT(remaining, AllOf(Gt(40'000), Le(60'000)));
  EXPECT_EQ(Number(seen[1], "retry-remaining-ms"), remaining - 5'000);
  EXPECT_EQ(Number(seen[2], "retry-remaining-ms"), remaining - 10'000);
}

TEST_P(LayerTest, WithoutADeadlineNoRemainingTimeIsTold) {
  MakeChannel(Policy(4));
  CallUnary();
  const SeenCall seen = server_.seen().at(0);
  EXPECT_THAT(seen.Values("retry-owner"), ElementsAre("this layer"));
  EXPECT_THAT(seen.Values("retry-remaining-ms"), IsEmpty());
}

TEST_P(LayerTest, TheConfigsTimeoutCountsAsRemainingTime) {
  MakeChannel(Policy(4).Method("\"timeout\": \"30s\""));
  grpc::ClientContext context;
  SetDeadline(&context, 1000);
  CallUnary(&context);
  EXPECT_THAT(Number(server_.seen().at(0), "retry-remaining-ms"),
              AllOf(Gt(10'000), Le(30'000)));
}

TEST_P(LayerTest, TheNameMayStandInTheConfig) {
  options_.layer_name = "";
  MakeChannel(R"({"retryGuard": {"layerName": "from-config"}})");
  CallUnary();
  EXPECT_THAT(server_.seen().at(0).Values("retry-owner"),
              ElementsAre("from-config"));
}

TEST_P(LayerTest, WithoutANameItIsThatOfTheBinary) {
  options_.layer_name = "";
  MakeChannel(Policy(4));
  CallUnary();
  EXPECT_THAT(server_.seen().at(0).Values("retry-owner"),
              ElementsAre(program_invocation_short_name));
}

TEST_P(LayerTest, NeverNeitherRetriesNorClaims) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4).Guard("\"layer\": \"NEVER\""));
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kLayerNever)));
  ASSERT_EQ(server_.calls(), 1);
  ExpectNoClaim(server_.seen()[0]);
}

TEST_P(LayerTest, ASingleAttemptIsNoClaim) {
  MakeChannel(Policy(1));
  CallUnary();
  ExpectNoClaim(server_.seen().at(0));
}

TEST_P(LayerTest, AnOwnerAboveIsObeyedAndItsMarkTravelsOn) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  MarkByLayerAbove(&context);
  SetDeadline(&context, 60);
  EXPECT_EQ(CallUnary(&context).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kAnotherLayerRetries)));
  ASSERT_EQ(server_.calls(), 1);
  const SeenCall seen = server_.seen()[0];
  EXPECT_THAT(seen.Values("retry-owner"), ElementsAre("the gateway"));
  EXPECT_THAT(seen.Values("retry-attempt"), ElementsAre("2"));
  // Told anew, from what is left here.
  EXPECT_THAT(Number(seen, "retry-remaining-ms"),
              AllOf(Gt(40'000), Le(60'000)));
}

TEST_P(LayerTest, HereRetriesAnywayAndReplacesTheMark) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4).Guard("\"layer\": \"HERE\""));
  grpc::ClientContext context;
  MarkByLayerAbove(&context);
  SetDeadline(&context, 60);
  EXPECT_TRUE(CallUnary(&context).status.ok());
  const std::vector<SeenCall> seen = server_.seen();
  ASSERT_EQ(seen.size(), 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(seen[i].Values("retry-owner"), ElementsAre("this layer"));
    EXPECT_EQ(Number(seen[i], "retry-attempt"), i + 1);
    EXPECT_THAT(Number(seen[i], "retry-remaining-ms"),
                AllOf(Gt(40'000), Le(60'000)));
  }
}

// A caller that counts its own attempts may have said so already.
TEST_P(LayerTest, OurCountOfPreviousAttemptsReplacesTheCallers) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  context.AddMetadata("grpc-previous-rpc-attempts", "7");
  EXPECT_TRUE(CallUnary(&context).status.ok());
  EXPECT_EQ(Number(server_.seen().at(1), "grpc-previous-rpc-attempts"), 1);
}

class KillSwitchTest : public LayerTest {};
RETRY_GUARD_IN_EVERY_STYLE(KillSwitchTest);

TEST_P(KillSwitchTest, OffNothingIsRetriedAndNothingClaimed) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4));
  options_.guard->SetRetriesEnabled(false);
  EXPECT_EQ(CallUnary().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kDisabled)));
  ASSERT_EQ(server_.calls(), 1);
  ExpectNoClaim(server_.seen()[0]);
  EXPECT_FALSE(Snapshot().retries_enabled);
  EXPECT_EQ(Snapshot().calls, 1);
}

TEST_P(KillSwitchTest, OffTheMarkOfAnOwnerAboveStillTravelsOn) {
  MakeChannel(Policy(4));
  options_.guard->SetRetriesEnabled(false);
  grpc::ClientContext context;
  MarkByLayerAbove(&context);
  EXPECT_TRUE(CallUnary(&context).status.ok());
  EXPECT_THAT(server_.seen().at(0).Values("retry-owner"),
              ElementsAre("the gateway"));
}

TEST_P(KillSwitchTest, OnAgainCallsAreRetriedAgain) {
  MakeChannel(Policy(4));
  options_.guard->SetRetriesEnabled(false);
  CallUnary();
  options_.guard->SetRetriesEnabled(true);
  server_.SetScript({Unavailable(), Succeed()});
  EXPECT_TRUE(CallUnary().status.ok());
}

TEST_P(KillSwitchTest, OnAgainInMidCallTheRetriesAreClaimed) {
  server_.SetScript({Hold({grpc::StatusCode::UNAVAILABLE, "busy"}), Succeed()});
  MakeChannel(Policy(4));
  options_.guard->SetRetriesEnabled(false);
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(server_.AwaitCalls(1));
  options_.guard->SetRetriesEnabled(true);
  server_.Release();
  EXPECT_TRUE(call.Await().ok());
  ASSERT_EQ(server_.calls(), 2);
  ExpectNoClaim(server_.seen()[0]);
  EXPECT_THAT(server_.seen()[1].Values("retry-owner"),
              ElementsAre("this layer"));
  EXPECT_EQ(Number(server_.seen()[1], "retry-attempt"), 2);
}

TEST_P(KillSwitchTest, ThrownDuringABackoffStopsTheRetryThatWaits) {
  const auto clock = UseManualClock();
  server_.SetScript({Unavailable("busy"), Succeed()});
  MakeChannel(Policy(4).Backoff("5s"));
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  options_.guard->SetRetriesEnabled(false);
  clock->Advance(absl::Seconds(5));
  EXPECT_EQ(call.Await().error_message(), "busy");
  EXPECT_EQ(server_.calls(), 1);
  EXPECT_EQ(Snapshot().budget_left, 10);
  EXPECT_THAT(
      seen_->decisions(),
      ElementsAre(Retries(), AllOf(OfAttempt(1), Returns(Reason::kDisabled))));
}

}  // namespace
}  // namespace retry_guard::end2end
