// What observers and Snapshot tell.

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::OfAttempt;
using ::testing::Pair;
using testing::RecordedAttempt;
using testing::RecordedDecision;
using testing::RecordedPolicyChange;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;
using ::testing::UnorderedElementsAre;

class ObserverTest : public EndToEndTest {
 protected:
  // Two channels of one guard that want different things of it: the first one
  // has its way.
  void ExpectTheFirstDecides(const Policy& first, const Policy& second,
                             int budget_left) {
    MakeChannel(first);
    const std::shared_ptr<grpc::Channel> stays = channel_;
    seen_->Clear();
    MakeChannel(second);
    EXPECT_THAT(seen_->policy_changes(),
                Contains(Field(&RecordedPolicyChange::kind,
                               PolicyChange::Kind::kGuardDiffers)));
    EXPECT_EQ(Snapshot().budget_left, budget_left);
  }
};
RETRY_GUARD_IN_EVERY_STYLE(ObserverTest);

TEST_P(ObserverTest, ADecisionSaysEverythingAboutItsAttempt) {
  const auto clock = UseManualClock();
  server_.SetScript(
      {Unavailable("one"), Fail(grpc::StatusCode::ABORTED, "two"), Succeed()});
  MakeChannel(Policy(4).Backoff("5s").Codes("\"UNAVAILABLE\", \"ABORTED\""));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(60));
  StartedCall call = StartUnary(&context);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(clock->AwaitTimers(1));
    clock->Advance(absl::Seconds(5));
  }
  ASSERT_TRUE(call.Await().ok());

  const std::string peer = absl::StrCat("ipv4:", server_.address());
  const std::vector<RecordedDecision> decisions = seen_->decisions();
  ASSERT_EQ(decisions.size(), 3);
  for (int i = 0; i < 3; ++i) {
    const RecordedDecision& decision = decisions[i];
    EXPECT_EQ(decision.method, kUnaryMethod);
    EXPECT_EQ(decision.attempt, i + 1);
    EXPECT_EQ(decision.peer, peer);
    EXPECT_EQ(decision.elapsed, i * absl::Seconds(5));
    EXPECT_EQ(decision.remaining, decisions[0].remaining - decision.elapsed);
    EXPECT_FALSE(decision.resend);
  }
  EXPECT_GT(decisions[0].remaining, absl::Seconds(30));
  EXPECT_LE(decisions[0].remaining, absl::Seconds(60));
  EXPECT_EQ(decisions[0].verdict, Verdict::kRetry);
  EXPECT_EQ(decisions[0].reason, Reason::kRetry);
  EXPECT_EQ(decisions[0].code, absl::StatusCode::kUnavailable);
  EXPECT_EQ(decisions[0].message, "one");
  EXPECT_EQ(decisions[0].delay, absl::Seconds(5));
  EXPECT_EQ(decisions[1].code, absl::StatusCode::kAborted);
  EXPECT_EQ(decisions[1].message, "two");
  EXPECT_EQ(decisions[2].verdict, Verdict::kReturn);
  EXPECT_EQ(decisions[2].reason, Reason::kSucceeded);
  EXPECT_EQ(decisions[2].code, absl::StatusCode::kOk);
  EXPECT_EQ(decisions[2].delay, absl::ZeroDuration());

  const std::vector<RecordedAttempt> attempts = seen_->attempts();
  ASSERT_EQ(attempts.size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(attempts[i].method, kUnaryMethod);
    EXPECT_EQ(attempts[i].attempt, i + 1);
    EXPECT_EQ(attempts[i].code, decisions[i].code);
    EXPECT_EQ(attempts[i].message, decisions[i].message);
    EXPECT_EQ(attempts[i].peer, peer);
    EXPECT_EQ(attempts[i].took, absl::ZeroDuration());
    EXPECT_FALSE(attempts[i].probe);
  }
}

TEST_P(ObserverTest, WithoutADeadlineTheRemainingTimeIsInfinite) {
  MakeChannel(Policy(4));
  CallUnary();
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Field(&RecordedDecision::remaining,
                                absl::InfiniteDuration())));
}

TEST_P(ObserverTest, SeveralHearTheSame) {
  const auto second = std::make_shared<testing::RecordingObserver>();
  options_.observers = {nullptr, second};
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4));
  CallUnary();
  EXPECT_THAT(second->decisions(), ElementsAre(Retries(), Succeeds()));
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds()));
}

TEST_P(ObserverTest, WithoutAnyNothingIsDifferent) {
  server_.SetScript({Unavailable(), Unavailable("last")});
  InterceptorOptions options;
  options.service_config_json = Policy(2);
  channel_ = *CreateChannel(server_.address(), credentials_, options);
  EXPECT_EQ(CallUnary().status.error_message(), "last");
  EXPECT_EQ(server_.calls(), 2);
}

TEST_P(ObserverTest, PoliciesPutInForceAndRefusedAreTold) {
  MakeChannelByHand(Policy(4));
  EXPECT_TRUE(factory_->UpdateServiceConfig(Policy(3).Json()).ok());
  EXPECT_FALSE(factory_->UpdateServiceConfig("{").ok());
  EXPECT_THAT(
      seen_->policy_changes(),
      ElementsAre(
          Field(&RecordedPolicyChange::kind, PolicyChange::Kind::kApplied),
          Field(&RecordedPolicyChange::kind, PolicyChange::Kind::kApplied),
          Field(&RecordedPolicyChange::kind, PolicyChange::Kind::kRefused)));
}

TEST_P(ObserverTest, ASecondChannelCannotChangeTheGuardsParameters) {
  ExpectTheFirstDecides(
      Policy(2).NoBreaker().Budget(R"("ratio": 0, "minRetries": 3)"),
      Policy(2).NoBreaker().Budget(R"("ratio": 0, "minRetries": 9)"), 3);
}

TEST_P(ObserverTest, NotEvenToTheDefaultsWrittenOut) {
  ExpectTheFirstDecides(
      Policy(2).NoBreaker().Budget(R"("ratio": 0, "minRetries": 3)"),
      Policy(2).NoBreaker().Budget(R"("minRetries": 10)"), 3);
}

TEST_P(ObserverTest, AChannelThatSaysNothingOfTheGuardLeavesItToOthers) {
  MakeChannel(Policy(2));
  const std::shared_ptr<grpc::Channel> first = channel_;
  MakeChannel(Policy(2).Budget("\"ratio\": 0, \"minRetries\": 3"));
  const std::shared_ptr<grpc::Channel> second = channel_;
  MakeChannel(Policy(2));
  EXPECT_THAT(
      seen_->policy_changes(),
      Each(Field(&RecordedPolicyChange::kind, PolicyChange::Kind::kApplied)));
  EXPECT_EQ(Snapshot().budget_left, 3);
}

TEST_P(ObserverTest, DefaultsWrittenOutDecide) {
  ExpectTheFirstDecides(Policy(2).Budget(R"("minRetries": 10)"),
                        Policy(2).Budget(R"("minRetries": 3)"), 10);
}

// Does the same thing whenever it hears something.
class Acting final : public Observer {
 public:
  explicit Acting(std::function<void()> act) : act_(std::move(act)) {}
  void OnDecision(const Decision&) override { act_(); }
  void OnAttempt(const AttemptReport&) override { act_(); }
  void OnBreakerStateChange(const BreakerStateChange&) override { act_(); }

 private:
  const std::function<void()> act_;
};

TEST_P(ObserverTest, MayUseTheLibraryFromInside) {
  std::atomic<int> acts{0};
  const auto act = [&] {
    ++acts;
    EXPECT_TRUE(factory_->UpdateServiceConfig(Policy(4).Json()).ok());
    options_.guard->SetRetriesEnabled(true);
    EXPECT_GE(Snapshot().attempts, 1);
  };
  options_.observers = {std::make_shared<Acting>(act)};
  server_.SetScript({Unavailable(), Unavailable(), Succeed()});
  MakeChannelByHand(Policy(4));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_EQ(acts, 6);
}

TEST_P(ObserverTest, MayThrowTheKillSwitch) {
  options_.observers = {std::make_shared<Acting>(
      [&] { options_.guard->SetRetriesEnabled(false); })};
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(4));
  CallUnary();
  EXPECT_EQ(server_.calls(), 1);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kDisabled)));
}

// Field case 7: an observer that cancels runs on a thread of the call's own.
TEST_P(ObserverTest, MayCancelTheCall) {
  grpc::ClientContext context;
  options_.observers = {
      std::make_shared<Acting>([&context] { context.TryCancel(); })};
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(4));
  EXPECT_EQ(CallUnary(&context).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server_.calls(), 1);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kCallerCancelled)));
}

TEST_P(ObserverTest, ThatThrowsHarmsNobody) {
  options_.observers = {std::make_shared<Acting>(
      [] { throw std::runtime_error("an observer's bug"); })};
  options_.observers.push_back(options_.observers[0]);
  const auto last = std::make_shared<testing::RecordingObserver>();
  options_.observers.push_back(last);
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_THAT(last->decisions(), ElementsAre(Retries(), Succeeds()));
  EXPECT_THAT(last->attempts(),
              ElementsAre(Field(&RecordedAttempt::attempt, 1),
                          Field(&RecordedAttempt::attempt, 2)));
}

TEST_P(ObserverTest, TheSnapshotAddsUp) {
  const auto clock = UseManualClock();
  MakeChannel(Policy(2).Backoff("5s").Budget(
      "\"ratio\": 0, \"minRetries\": 3, \"window\": \"1000s\""));
  const auto call = [&](int waits) {
    grpc::ClientContext context;
    StartedCall started = StartUnary(&context);
    for (int i = 0; i < waits; ++i) {
      ASSERT_TRUE(clock->AwaitTimers(1));
      clock->Advance(absl::Seconds(5));
    }
    started.Await();
  };
  server_.SetScript({Succeed()});
  call(0);
  call(0);
  server_.SetScript({Unavailable(), Succeed()});
  call(1);
  server_.SetScript({Unavailable()});
  call(1);
  server_.SetScript({Fail(grpc::StatusCode::NOT_FOUND)});
  call(0);
  grpc::ClientContext cancelled;
  cancelled.TryCancel();
  CallUnary(&cancelled);

  const GuardSnapshot snapshot = Snapshot();
  EXPECT_EQ(snapshot.calls, 5);
  EXPECT_EQ(snapshot.attempts, 7);
  EXPECT_EQ(snapshot.retries, 2);
  EXPECT_DOUBLE_EQ(snapshot.retry_ratio(), 0.4);
  EXPECT_EQ(snapshot.budget_left, 1);
  EXPECT_EQ(snapshot.backoff_time, absl::Seconds(10));
  EXPECT_EQ(snapshot.attempts_to_success[1], 2);
  EXPECT_EQ(snapshot.attempts_to_success[2], 1);
  EXPECT_THAT(snapshot.refusals,
              UnorderedElementsAre(Pair(Reason::kAttemptsExhausted, 1),
                                   Pair(Reason::kNotRetryable, 1),
                                   Pair(Reason::kCallerCancelled, 1)));
  EXPECT_EQ(snapshot.breaker_state, BreakerState::kClosed);
  EXPECT_TRUE(snapshot.retries_enabled);
}

}  // namespace
}  // namespace retry_guard::end2end
