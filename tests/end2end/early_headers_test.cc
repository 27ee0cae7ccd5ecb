// Response headers of a unary call that are there before its answer: a caller
// who asks for them does not wait for that.

#include <string>

#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;
using ::testing::ElementsAre;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;

class EarlyHeadersTest : public EndToEndTest {
 protected:
  static Reaction EarlyThen(grpc::Status status) {
    return HeadersFirst(
        WithInitial(Hold(std::move(status)), "initial", "early"));
  }

  // What the caller of `context` reads in its headers while the server holds
  // back its answer.
  void ExpectSeesThem(const StartedCall& call,
                      const grpc::ClientContext& context) {
    ASSERT_TRUE(call.AwaitHeaders());
    EXPECT_FALSE(call.done());
    const auto& metadata = context.GetServerInitialMetadata();
    ASSERT_EQ(metadata.count("initial"), 1);
    EXPECT_EQ(metadata.find("initial")->second, "early");
  }
};
INSTANTIATE_TEST_SUITE_P(Styles, EarlyHeadersTest, ::testing::ValuesIn([] {
                           std::vector<Style> styles;
                           for (const Style style : AllStyles()) {
                             if (HeadersCommit(style)) styles.push_back(style);
                           }
                           return styles;
                         }()),
                         StyleParamName);

TEST_P(EarlyHeadersTest, AreThereBeforeTheAnswer) {
  server_.SetScript({EarlyThen(grpc::Status::OK)});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ExpectSeesThem(call, context);
  server_.Release();
  EXPECT_TRUE(call.Await().ok());
  EXPECT_EQ(call.text(), "hi");
  EXPECT_THAT(seen_->decisions(), ElementsAre(Succeeds()));
}

// Neither it nor what a reactor is told of it may be taken from an attempt that
// is repeated.
TEST_P(EarlyHeadersTest, AreThoseOfTheAttemptThatAnswers) {
  server_.SetScript(
      {WithTrailing(Unavailable(), "trailing", "first"),
       WithTrailing(EarlyThen(grpc::Status::OK), "trailing", "second")});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ExpectSeesThem(call, context);
  server_.Release();
  EXPECT_TRUE(call.Await().ok());
  EXPECT_EQ(call.text(), "hi");
  EXPECT_EQ(context.GetServerInitialMetadata().find("initial")->second,
            "early");
  const auto& trailing = context.GetServerTrailingMetadata();
  ASSERT_EQ(trailing.count("trailing"), 1);
  EXPECT_EQ(trailing.find("trailing")->second, "second");
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds()));
}

// On a completion queue a call may be dropped by who has asked for no more.
class DroppedAfterHeadersTest : public EndToEnd {
 protected:
  void CallAndDrop() {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    EchoRequest request;
    const auto call = EchoService::NewStub(channel_)->PrepareAsyncUnary(
        &context, request, &queue);
    call->StartCall();
    call->ReadInitialMetadata(nullptr);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_TRUE(ok);
    queue.Shutdown();
    ASSERT_FALSE(queue.Next(&tag, &ok));
  }
};

TEST_F(DroppedAfterHeadersTest, TheCallIsCancelled) {
  server_.SetScript({HeadersFirst(Hold())});
  MakeChannel(Policy(4));
  CallAndDrop();
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kCallerCancelled)));
  EXPECT_TRUE(server_.AwaitCancelled(1));
}

TEST_F(DroppedAfterHeadersTest, TheChannelMayGoWithIt) {
  server_.SetScript({HeadersFirst(Hold())});
  MakeChannel(Policy(4));
  CallAndDrop();
  channel_ = nullptr;
  EXPECT_TRUE(server_.AwaitCancelled(1));
}

TEST_F(DroppedAfterHeadersTest, AProbeFreesItsSlotAtOnce) {
  const auto clock = UseManualClock();
  server_.SetScript({Unavailable(), HeadersFirst(Hold()), Succeed()});
  MakeChannel(Policy(1).Breaker(
      R"("failureRate": 0, "consecutiveFailures": 1, "openFor": "1s")"));
  grpc::ClientContext first;
  Call(Style::kSync, channel_, &first);
  clock->Advance(absl::Seconds(2));
  CallAndDrop();
  ASSERT_EQ(Snapshot().breaker_state, BreakerState::kHalfOpen);
  grpc::ClientContext third;
  EXPECT_TRUE(Call(Style::kSync, channel_, &third).status.ok());
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
}

TEST_P(EarlyHeadersTest, OnceSeenCommitTheCall) {
  server_.SetScript({Unavailable(), EarlyThen({grpc::StatusCode::UNAVAILABLE,
                                               "down after all"})});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ExpectSeesThem(call, context);
  server_.Release();
  EXPECT_EQ(call.Await().error_message(), "down after all");
  EXPECT_EQ(server_.calls(), 2);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Returns(Reason::kCommitted)));
}

}  // namespace
}  // namespace retry_guard::end2end
