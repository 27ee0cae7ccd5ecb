// A cancelled call ends CANCELLED, at once, wherever it stands, and nothing
// more of it goes out.

#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "tests/end2end/fixture.h"
#include "tests/end2end/interceptors.h"

namespace retry_guard::end2end {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::OfAttempt;
using testing::Retries;
using testing::Returns;

class CancelTest : public EndToEndTest {};
RETRY_GUARD_IN_EVERY_STYLE(CancelTest);

TEST_P(CancelTest, BeforeTheStartSendsNothingAndCostsNothing) {
  MakeChannel(Policy(4).Breaker("\"consecutiveFailures\": 1"));
  grpc::ClientContext context;
  context.TryCancel();
  const CallResult result = CallUnary(&context);
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(result.text, UntouchedReply(GetParam()));
  EXPECT_EQ(server_.calls(), 0);
  EXPECT_THAT(
      seen_->decisions(),
      ElementsAre(AllOf(OfAttempt(0), Returns(Reason::kCallerCancelled,
                                              absl::StatusCode::kCancelled))));
  const GuardSnapshot snapshot = Snapshot();
  EXPECT_EQ(snapshot.calls, 0);
  EXPECT_EQ(snapshot.attempts, 0);
  EXPECT_EQ(snapshot.budget_left, 10);
  EXPECT_EQ(snapshot.breaker_state, BreakerState::kClosed);
  EXPECT_EQ(snapshot.refusals.at(Reason::kCallerCancelled), 1);
}

TEST_P(CancelTest, DuringTheFirstAttemptEndsIt) {
  server_.SetScript({Hold()});
  MakeChannel(Policy(4).Breaker("\"consecutiveFailures\": 1"));
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(server_.AwaitCalls(1));
  context.TryCancel();
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(call.text(), UntouchedReply(GetParam()));
  EXPECT_TRUE(server_.AwaitCancelled(1));
  EXPECT_EQ(server_.calls(), 1);
  EXPECT_THAT(
      seen_->decisions(),
      ElementsAre(AllOf(OfAttempt(1), Returns(Reason::kCallerCancelled))));
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
}

// Even where the config lists CANCELLED.
TEST_P(CancelTest, IsNeverRetried) {
  server_.SetScript({Hold()});
  MakeChannel(Policy(4).Codes("\"CANCELLED\", \"UNAVAILABLE\""));
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(server_.AwaitCalls(1));
  context.TryCancel();
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(server_.calls(), 1);
}

TEST_P(CancelTest, DuringALaterAttemptEndsIt) {
  server_.SetScript({Unavailable(), Hold()});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(server_.AwaitCalls(2));
  context.TryCancel();
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(server_.AwaitCancelled(1));
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), AllOf(OfAttempt(2),
                                           Returns(Reason::kCallerCancelled))));
}

TEST_P(CancelTest, DuringBackoffEndsItAtOnceAndGivesTheTokenBack) {
  const auto clock = UseManualClock();
  server_.SetScript(
      {WithTrailing(Unavailable("busy"), "trailing", "of the failure")});
  MakeChannel(Policy(4).Backoff("5s"));
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  EXPECT_EQ(Snapshot().budget_left, 9);
  context.TryCancel();
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(call.text(), UntouchedReply(GetParam()));
  EXPECT_EQ(Snapshot().budget_left, 10);
  EXPECT_EQ(clock->pending_timers(), 0);
  clock->Advance(absl::Seconds(5));
  EXPECT_EQ(server_.calls(), 1);
  EXPECT_THAT(
      seen_->decisions(),
      ElementsAre(Retries(),
                  AllOf(OfAttempt(1), Returns(Reason::kCallerCancelled,
                                              absl::StatusCode::kCancelled))));
  EXPECT_EQ(Snapshot().attempts, 1);
}

TEST_P(CancelTest, DuringARealBackoffEndsItAtOnce) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(4).Backoff("1000s"));
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(seen_->AwaitDecisions(1));
  context.TryCancel();
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(server_.calls(), 1);
}

TEST_P(CancelTest, AfterTheEndChangesNothing) {
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  const CallResult result = CallUnary(&context);
  context.TryCancel();
  EXPECT_TRUE(result.status.ok());
  EXPECT_TRUE(CallUnary().status.ok());
}

TEST_P(CancelTest, ByTheServerIsNotTheCallersDoing) {
  server_.SetScript({Fail(grpc::StatusCode::CANCELLED, "server"), Succeed()});
  MakeChannel(Policy(4));
  EXPECT_EQ(CallUnary().status.error_message(), "server");
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kNotRetryable)));
}

TEST_P(CancelTest, ByTheServerIsRetriedIfListed) {
  server_.SetScript({Fail(grpc::StatusCode::CANCELLED, "server"), Succeed()});
  MakeChannel(Policy(4).Codes("\"CANCELLED\""));
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_EQ(server_.calls(), 2);
}

// Looks at each attempt from behind ours: one that starts after TryCancel has
// returned must have been cancelled itself, and so never reach the wire.
class LateAttempts {
 public:
  std::atomic<bool> cancel_has_returned{false};
  std::atomic<int> sent_anyway{0};

  std::unique_ptr<ClientInterceptorFactoryInterface> Factory() {
    return MakeEach([this](ClientRpcInfo*) { return new Attempt(this); });
  }

 private:
  class Attempt final : public Interceptor {
   public:
    explicit Attempt(LateAttempts* all) : all_(all) {}

    void Intercept(InterceptorBatchMethods* batch) override {
      if (batch->QueryInterceptionHookPoint(
              InterceptionHookPoints::PRE_SEND_CANCEL)) {
        cancelled_ = true;
      }
      if (batch->QueryInterceptionHookPoint(
              InterceptionHookPoints::PRE_SEND_INITIAL_METADATA) &&
          all_->cancel_has_returned && !cancelled_) {
        ++all_->sent_anyway;
      }
      batch->Proceed();
    }

   private:
    LateAttempts* const all_;
    std::atomic<bool> cancelled_{false};
  };
};

int Iterations(int otherwise) {
  const char* const given = std::getenv("RETRY_GUARD_TEST_ITERATIONS");
  int iterations = otherwise;
  if (given != nullptr && !absl::SimpleAtoi(given, &iterations)) std::abort();
  return iterations;
}

// At a random moment: with backoffs of no length worth mentioning, so that
// attempts, waits and the cancellation meet in every order.
class CancelRaceTest : public EndToEndTest {
 protected:
  // Spins or sleeps so that the cancellation comes `delay` after the start.
  static void Pass(absl::Duration delay) {
    const absl::Time until = absl::Now() + delay;
    while (absl::Now() < until) std::this_thread::yield();
  }

  void Race(const std::string& policy, absl::Duration longest, unsigned seed) {
    // The interceptors may outlive their call by a little.
    static auto* const late = new LateAttempts();
    late->sent_anyway = 0;
    MakeChannelByHand(policy, ListOf(late->Factory()));
    std::mt19937 random(seed);
    std::uniform_int_distribution<int64_t> nanos(
        0, absl::ToInt64Nanoseconds(longest));
    const int iterations = Iterations(150);
    int cancelled = 0;
    for (int i = 0; i < iterations; ++i) {
      late->cancel_has_returned = false;
      grpc::ClientContext context;
      StartedCall call = StartUnary(&context);
      Pass(absl::Nanoseconds(nanos(random)));
      context.TryCancel();
      late->cancel_has_returned = true;
      const grpc::StatusCode code = call.Await().error_code();
      EXPECT_TRUE(code == grpc::StatusCode::CANCELLED ||
                  code == grpc::StatusCode::UNAVAILABLE)
          << call.Await().error_message();
      if (code == grpc::StatusCode::CANCELLED) ++cancelled;
    }
    EXPECT_EQ(late->sent_anyway, 0);
    RecordProperty("cancelled", cancelled);
    // Every call told its end once, and every token is spent or back.
    const GuardSnapshot snapshot = Snapshot();
    int ends = 0;
    int retries = 0;
    for (const auto& decision : seen_->decisions()) {
      (decision.verdict == Verdict::kReturn ? ends : retries)++;
    }
    EXPECT_EQ(ends, iterations);
    EXPECT_LE(snapshot.retries, retries);
    EXPECT_EQ(snapshot.budget_left, kBudget - snapshot.retries);
  }

  static constexpr int64_t kBudget = 1'000'000;
  static Policy RacePolicy() {
    return Policy(4).NoBreaker().Budget(
        "\"ratio\": 0, \"minRetries\": 1000000, \"window\": \"3600s\"");
  }
};
RETRY_GUARD_IN_EVERY_STYLE(CancelRaceTest);

TEST_P(CancelRaceTest, WithAttemptsThatFailAtOnceAndNoBackoff) {
  server_.SetScript({Unavailable()});
  // gRPC counts in milliseconds; a pushback of 0 waits U[0, that].
  Race(RacePolicy().Guard("\"jitter\": \"FULL\""), absl::Milliseconds(3), 1);
}

TEST_P(CancelRaceTest, WithTheEndOfABackoff) {
  server_.SetScript({Unavailable()});
  Race(RacePolicy(), absl::Milliseconds(6), 2);
}

TEST_P(CancelRaceTest, WithAttemptsThatFailWithoutEverConnecting) {
  const ClosedPort port;
  target_ = port.address();
  Race(RacePolicy(), absl::Milliseconds(4), 3);
}

}  // namespace
}  // namespace retry_guard::end2end
