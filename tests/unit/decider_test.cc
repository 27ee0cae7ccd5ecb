#include "retry_guard/policy/decider.h"

#include "gtest/gtest.h"

namespace retry_guard {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using Code = absl::StatusCode;

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(1);
constexpr double kHalf = 0.5;

// A call that may be retried, so that each test spoils one thing.
class DeciderTest : public ::testing::Test {
 protected:
  DeciderTest() {
    policy_.has_retry_policy = true;
    policy_.max_attempts = 3;
    policy_.backoff.initial = Milliseconds(100);
    policy_.backoff.jitter = Jitter::kNone;
    terms_.policy = &policy_;
    terms_.repeat = Repeat::kSafe;
    terms_.deadline = kNow + Seconds(10);
    outcome_.code = Code::kUnavailable;
    end_.outcome = &outcome_;
    progress_.attempts = 1;
  }

  Ruling Decide() {
    return DecideAfterAttempt(terms_, progress_, end_, budget_, kNow, kHalf);
  }

  // The reason of a refusal, which must leave no trace.
  Reason Refusal() {
    const int64_t left = budget_.Left(kNow);
    const Ruling ruling = Decide();
    EXPECT_FALSE(ruling.token.has_value());
    EXPECT_EQ(ruling.delay, absl::ZeroDuration());
    EXPECT_FALSE(ruling.resend);
    EXPECT_EQ(budget_.Left(kNow), left);
    BackoffLadder ladder = progress_.ladder;
    EXPECT_EQ(ladder.Next(policy_.backoff, 0), policy_.backoff.initial);
    return ruling.reason;
  }

  void Hint(ServerHint::Source source, absl::Duration delay) {
    outcome_.hint.source = source;
    outcome_.hint.delay = delay;
  }

  MethodPolicy policy_;
  CallTerms terms_;
  CallProgress progress_;
  Outcome outcome_;
  AttemptEnd end_;
  RetryBudget budget_{BudgetPolicy(), std::nullopt};  // 10 tokens
};

TEST_F(DeciderTest, RetriesAndTakesOneToken) {
  const Ruling ruling = Decide();
  EXPECT_TRUE(ruling.retry());
  EXPECT_EQ(ruling.delay, Milliseconds(100));
  EXPECT_FALSE(ruling.resend);
  ASSERT_TRUE(ruling.token.has_value());
  EXPECT_EQ(ruling.token->taken_at, kNow);
  EXPECT_EQ(budget_.Left(kNow), 9);
}

TEST_F(DeciderTest, DelaysClimbTheLadder) {
  policy_.max_attempts = 9;
  EXPECT_EQ(Decide().delay, Milliseconds(100));
  EXPECT_EQ(Decide().delay, Milliseconds(200));
  EXPECT_EQ(Decide().delay, Milliseconds(400));
}

// ---- every line, alone

TEST_F(DeciderTest, Line1Succeeded) {
  outcome_.code = Code::kOk;
  EXPECT_EQ(Refusal(), Reason::kSucceeded);
}

TEST_F(DeciderTest, Line2CallerCancelled) {
  end_.caller_cancelled = true;
  EXPECT_EQ(Refusal(), Reason::kCallerCancelled);
}

TEST_F(DeciderTest, Line3Committed) {
  end_.committed = true;
  EXPECT_EQ(Refusal(), Reason::kCommitted);
}

TEST_F(DeciderTest, Line4NotRetryable) {
  outcome_.code = Code::kInternal;
  EXPECT_EQ(Refusal(), Reason::kNotRetryable);
}

TEST_F(DeciderTest, Line5NotIdempotent) {
  terms_.repeat = Repeat::kUnsafe;
  EXPECT_EQ(Refusal(), Reason::kNotIdempotent);
}

TEST_F(DeciderTest, Line6ServerSaidStop) {
  outcome_.hint.source = ServerHint::Source::kPushback;
  outcome_.hint.stop = true;
  EXPECT_EQ(Refusal(), Reason::kServerSaidStop);
  outcome_.hint.stop = false;
  outcome_.hint.delay = Seconds(61);  // maxPushback is 60 s
  EXPECT_EQ(Refusal(), Reason::kServerSaidStop);
}

TEST_F(DeciderTest, Line7RetriesAreNotOurs) {
  terms_.core_retries = true;
  EXPECT_EQ(Refusal(), Reason::kCoreRetries);
  policy_.layer = Layer::kNever;
  EXPECT_EQ(Refusal(), Reason::kLayerNever);
  terms_.another_layer_owns = true;
  EXPECT_EQ(Refusal(), Reason::kAnotherLayerRetries);
  end_.retries_enabled = false;
  EXPECT_EQ(Refusal(), Reason::kDisabled);
}

TEST_F(DeciderTest, Line8BreakerOpen) {
  end_.was_probe = true;
  EXPECT_EQ(Refusal(), Reason::kBreakerOpen);
  end_.was_probe = false;
  end_.breaker_closed = false;
  EXPECT_EQ(Refusal(), Reason::kBreakerOpen);
}

TEST_F(DeciderTest, Line9AttemptsExhausted) {
  progress_.attempts = 3;
  EXPECT_EQ(Refusal(), Reason::kAttemptsExhausted);
}

TEST_F(DeciderTest, Line10DeadlineTooClose) {
  terms_.deadline = kNow + Milliseconds(99);
  EXPECT_EQ(Refusal(), Reason::kDeadlineTooClose);
  // The expected attempt must fit too.
  end_.expected_attempt_time = Milliseconds(50);
  terms_.deadline = kNow + Milliseconds(149);
  EXPECT_EQ(Refusal(), Reason::kDeadlineTooClose);
  terms_.deadline = kNow + Milliseconds(150);
  EXPECT_TRUE(Decide().retry());
}

TEST_F(DeciderTest, ConfiguredAttemptTimeReplacesTheEstimate) {
  end_.expected_attempt_time = Seconds(60);
  policy_.min_attempt_time = Milliseconds(10);
  EXPECT_TRUE(Decide().retry());
}

TEST_F(DeciderTest, WithoutADeadlineEveryDelayFits) {
  terms_.deadline = absl::InfiniteFuture();
  end_.expected_attempt_time = absl::Hours(1);
  EXPECT_TRUE(Decide().retry());
}

TEST_F(DeciderTest, Line11BudgetExhausted) {
  while (budget_.Take(kNow)) {
  }
  EXPECT_EQ(Refusal(), Reason::kBudgetExhausted);
}

// ---- their order: all wrong at once, repaired one by one

TEST_F(DeciderTest, FirstNoIsTheReason) {
  while (budget_.Take(kNow)) {
  }
  terms_.deadline = kNow;
  progress_.attempts = 3;
  end_.breaker_closed = false;
  end_.retries_enabled = false;
  outcome_.hint.source = ServerHint::Source::kRetryAfter;
  outcome_.hint.delay = Seconds(61);
  terms_.repeat = Repeat::kUnsafe;
  outcome_.code = Code::kInternal;
  end_.committed = true;
  end_.caller_cancelled = true;
  EXPECT_EQ(Refusal(), Reason::kCallerCancelled);
  end_.caller_cancelled = false;
  EXPECT_EQ(Refusal(), Reason::kCommitted);
  end_.committed = false;
  EXPECT_EQ(Refusal(), Reason::kNotRetryable);
  outcome_.code = Code::kUnavailable;
  EXPECT_EQ(Refusal(), Reason::kNotIdempotent);
  terms_.repeat = Repeat::kSafe;
  EXPECT_EQ(Refusal(), Reason::kServerSaidStop);
  outcome_.hint = ServerHint();
  EXPECT_EQ(Refusal(), Reason::kDisabled);
  end_.retries_enabled = true;
  EXPECT_EQ(Refusal(), Reason::kBreakerOpen);
  end_.breaker_closed = true;
  EXPECT_EQ(Refusal(), Reason::kAttemptsExhausted);
  progress_.attempts = 2;
  EXPECT_EQ(Refusal(), Reason::kDeadlineTooClose);
  terms_.deadline = absl::InfiniteFuture();
  EXPECT_EQ(Refusal(), Reason::kBudgetExhausted);
}

TEST_F(DeciderTest, OkIsSuccessEvenForACallerWhoCancelled) {
  outcome_.code = Code::kOk;
  end_.caller_cancelled = true;
  EXPECT_EQ(Refusal(), Reason::kSucceeded);
}

// ---- server hints

TEST_F(DeciderTest, PushbackSetsTheDelayAndRestartsTheLadder) {
  policy_.max_attempts = 9;
  Decide();
  Decide();
  Hint(ServerHint::Source::kPushback, Seconds(1));
  EXPECT_EQ(Decide().delay, Milliseconds(1100));  // 1 s * (1 + 0.2 / 2)
  outcome_.hint = ServerHint();
  EXPECT_EQ(Decide().delay, Milliseconds(100));
}

TEST_F(DeciderTest, RetryAfterWaitsAtLeastTheLaddersNextDelay) {
  policy_.max_attempts = 9;
  Decide();
  Decide();
  Hint(ServerHint::Source::kRetryAfter, Milliseconds(200));
  EXPECT_EQ(Decide().delay, Milliseconds(400));  // third rung
  outcome_.hint = ServerHint();
  EXPECT_EQ(Decide().delay, Milliseconds(100));
}

TEST_F(DeciderTest, AHintThatDoesNotFitTheDeadlineIsNotShortened) {
  Hint(ServerHint::Source::kPushback, Seconds(11));
  EXPECT_EQ(Refusal(), Reason::kDeadlineTooClose);
}

TEST_F(DeciderTest, AHintDoesNotLiftTheAttemptLimit) {
  Hint(ServerHint::Source::kPushback, absl::ZeroDuration());
  progress_.attempts = 3;
  EXPECT_EQ(Refusal(), Reason::kAttemptsExhausted);
}

// Field case 14: what one attempt was allowed says nothing of the next.
TEST_F(DeciderTest, EachOutcomeIsJudgedAlone) {
  Hint(ServerHint::Source::kPushback, absl::ZeroDuration());
  EXPECT_TRUE(Decide().retry());
  progress_.attempts = 2;
  outcome_ = Outcome();
  outcome_.code = Code::kInternal;
  EXPECT_EQ(Decide().reason, Reason::kNotRetryable);
}

// ---- the re-send of a refused stream

TEST_F(DeciderTest, RefusedStreamIsSentAgainAtOnceWhoeverOwnsRetries) {
  outcome_.event = TransportEvent::kRefused;
  policy_.layer = Layer::kNever;
  policy_.max_attempts = 1;
  terms_.another_layer_owns = true;
  const Ruling ruling = Decide();
  EXPECT_TRUE(ruling.retry());
  EXPECT_TRUE(ruling.resend);
  EXPECT_EQ(ruling.delay, absl::ZeroDuration());
  EXPECT_TRUE(ruling.token.has_value());
  EXPECT_TRUE(progress_.resent);
  EXPECT_EQ(budget_.Left(kNow), 9);
}

TEST_F(DeciderTest, RefusedStreamIsSentAgainOncePerCall) {
  outcome_.event = TransportEvent::kRefused;
  EXPECT_TRUE(Decide().resend);
  progress_.attempts = 2;
  // From now on it is a failure like any other: backoff, and the first rung.
  const Ruling second = Decide();
  EXPECT_TRUE(second.retry());
  EXPECT_FALSE(second.resend);
  EXPECT_EQ(second.delay, Milliseconds(100));
  // Not a second time where retries are not ours.
  terms_.another_layer_owns = true;
  EXPECT_EQ(Decide().reason, Reason::kAnotherLayerRetries);
}

TEST_F(DeciderTest, TheResendKeepsToTheKillSwitchAndLeavesCoreItsOwn) {
  outcome_.event = TransportEvent::kRefused;
  end_.retries_enabled = false;
  EXPECT_EQ(Refusal(), Reason::kDisabled);
  end_.retries_enabled = true;
  // Core re-sends a refused stream itself where its retries are on.
  terms_.core_retries = true;
  EXPECT_EQ(Refusal(), Reason::kCoreRetries);
}

TEST_F(DeciderTest, TheResendIsNoAttemptOfMaxAttempts) {
  outcome_.event = TransportEvent::kRefused;
  EXPECT_TRUE(Decide().resend);
  outcome_.event = TransportEvent::kNone;
  progress_.attempts = 3;  // two counted
  EXPECT_TRUE(Decide().retry());
  progress_.attempts = 4;
  EXPECT_EQ(Decide().reason, Reason::kAttemptsExhausted);
}

TEST_F(DeciderTest, TheResendKeepsToBreakerDeadlineBudgetAndSafety) {
  outcome_.event = TransportEvent::kRefused;
  terms_.repeat = Repeat::kUnsafe;
  EXPECT_EQ(Refusal(), Reason::kNotIdempotent);
  terms_.repeat = Repeat::kUnknown;
  end_.breaker_closed = false;
  EXPECT_EQ(Refusal(), Reason::kBreakerOpen);
  end_.breaker_closed = true;
  terms_.deadline = kNow - Milliseconds(1);
  EXPECT_EQ(Refusal(), Reason::kDeadlineTooClose);
  terms_.deadline = kNow + Seconds(1);
  while (budget_.Take(kNow)) {
  }
  EXPECT_EQ(Refusal(), Reason::kBudgetExhausted);
  EXPECT_FALSE(progress_.resent);
}

TEST_F(DeciderTest, NeverConnectedBacksOffLikeAnyRetry) {
  outcome_.event = TransportEvent::kNeverConnected;
  outcome_.reached_a_peer = false;
  terms_.repeat = Repeat::kUnsafe;
  const Ruling ruling = Decide();
  EXPECT_TRUE(ruling.retry());
  EXPECT_FALSE(ruling.resend);
  EXPECT_EQ(ruling.delay, Milliseconds(100));
}

// ---- before an attempt

TEST_F(DeciderTest, BeforeAnAttemptCancelComesFirstThenTheDeadline) {
  EXPECT_EQ(RefuseBeforeAttempt(terms_, false, false, true, kNow),
            std::nullopt);
  terms_.deadline = kNow;
  EXPECT_EQ(RefuseBeforeAttempt(terms_, false, false, true, kNow),
            Reason::kDeadlineTooClose);
  EXPECT_EQ(RefuseBeforeAttempt(terms_, false, true, true, kNow),
            Reason::kCallerCancelled);
  terms_.deadline = kNow + absl::Nanoseconds(1);
  EXPECT_EQ(RefuseBeforeAttempt(terms_, false, false, true, kNow),
            std::nullopt);
}

TEST_F(DeciderTest, TheKillSwitchStopsRetriesNotFirstAttempts) {
  EXPECT_EQ(RefuseBeforeAttempt(terms_, /*is_retry=*/true, false,
                                /*retries_enabled=*/false, kNow),
            Reason::kDisabled);
  EXPECT_EQ(RefuseBeforeAttempt(terms_, /*is_retry=*/false, false,
                                /*retries_enabled=*/false, kNow),
            std::nullopt);
}

// ---- ownership

TEST_F(DeciderTest, ALayerThatWillNotRetryOwnsNothing) {
  EXPECT_TRUE(OwnsRetries(terms_, true));
  EXPECT_FALSE(OwnsRetries(terms_, /*retries_enabled=*/false));
  policy_.max_attempts = 1;
  EXPECT_FALSE(OwnsRetries(terms_, true));
  policy_.max_attempts = 2;
  policy_.layer = Layer::kNever;
  EXPECT_FALSE(OwnsRetries(terms_, true));
  policy_.layer = Layer::kHere;
  EXPECT_TRUE(OwnsRetries(terms_, true));
  terms_.another_layer_owns = true;
  EXPECT_FALSE(OwnsRetries(terms_, true));
  terms_.another_layer_owns = false;
  terms_.core_retries = true;
  EXPECT_FALSE(OwnsRetries(terms_, true));
}

// ---- what the breaker is told

TEST(BreakerResultTest, TableOfTheRules) {
  using Result = CircuitBreaker::Result;
  const BreakerPolicy policy;  // UNAVAILABLE, DEADLINE_EXCEEDED
  Outcome outcome;
  auto result = [&](bool cancelled = false, bool was_short = false) {
    return BreakerResult(outcome, policy, cancelled, was_short);
  };
  outcome.code = Code::kOk;
  EXPECT_EQ(result(), Result::kSuccess);
  EXPECT_EQ(result(/*cancelled=*/true), Result::kNeutral);
  outcome.code = Code::kNotFound;
  EXPECT_EQ(result(), Result::kSuccess);
  outcome.code = Code::kUnavailable;
  EXPECT_EQ(result(), Result::kFailure);
  EXPECT_EQ(result(/*cancelled=*/true), Result::kNeutral);
  EXPECT_EQ(result(false, /*was_short=*/true), Result::kFailure);
  outcome.event = TransportEvent::kRateLimited;
  EXPECT_EQ(result(), Result::kNeutral);
  outcome.event = TransportEvent::kNeverConnected;
  outcome.reached_a_peer = false;
  EXPECT_EQ(result(), Result::kFailure);

  outcome = Outcome();
  outcome.code = Code::kDeadlineExceeded;
  EXPECT_EQ(result(), Result::kFailure);
  EXPECT_EQ(result(false, /*was_short=*/true), Result::kNeutral);
  outcome.code = Code::kCancelled;  // that nobody asked for
  EXPECT_EQ(result(), Result::kNeutral);
  outcome.code = Code::kResourceExhausted;
  EXPECT_EQ(result(), Result::kSuccess);
  outcome.reached_a_peer = false;  // made locally
  EXPECT_EQ(result(), Result::kNeutral);
}

// By a call that went its own way.
CircuitBreaker::Result Told(const Outcome& outcome,
                            const BreakerPolicy& policy) {
  return BreakerResult(outcome, policy, /*caller_cancelled=*/false,
                       /*deadline_was_short=*/false);
}

TEST(BreakerResultTest, OnlyAServerCanSpeakForItself) {
  BreakerPolicy policy;
  policy.failure_codes = {Code::kDeadlineExceeded};
  Outcome outcome;
  outcome.code = Code::kUnavailable;
  EXPECT_EQ(Told(outcome, policy), CircuitBreaker::Result::kSuccess);
  outcome.reached_a_peer = false;  // nobody was there
  EXPECT_EQ(Told(outcome, policy), CircuitBreaker::Result::kNeutral);
  policy.failure_codes = {Code::kUnavailable};
  EXPECT_EQ(Told(outcome, policy), CircuitBreaker::Result::kFailure);
}

TEST(BreakerResultTest, FailureCodesAreThoseOfThePolicy) {
  BreakerPolicy policy;
  policy.failure_codes = {Code::kInternal};
  Outcome outcome;
  outcome.code = Code::kInternal;
  EXPECT_EQ(Told(outcome, policy), CircuitBreaker::Result::kFailure);
  outcome.code = Code::kUnavailable;
  EXPECT_EQ(Told(outcome, policy), CircuitBreaker::Result::kSuccess);
}

}  // namespace
}  // namespace retry_guard
