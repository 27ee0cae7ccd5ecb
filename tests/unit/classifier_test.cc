#include "retry_guard/policy/classifier.h"

#include "gtest/gtest.h"

namespace retry_guard {
namespace {

using Code = absl::StatusCode;

Outcome Failed(Code code) {
  Outcome outcome;
  outcome.code = code;
  return outcome;
}

Outcome With(Outcome outcome, ServerHint::Source source, bool stop = false) {
  outcome.hint.source = source;
  outcome.hint.stop = stop;
  return outcome;
}

Outcome With(Outcome outcome, TransportEvent event) {
  outcome.event = event;
  return outcome;
}

MethodPolicy Listing(StatusCodeSet codes) {
  MethodPolicy policy;
  policy.has_retry_policy = true;
  policy.retryable_codes = codes;
  return policy;
}

TEST(ClassifyRepeatTest, ConfigHasTheLastWord) {
  MethodPolicy policy;
  EXPECT_EQ(ClassifyRepeat(policy, false, false), Repeat::kUnknown);
  EXPECT_EQ(ClassifyRepeat(policy, true, false), Repeat::kSafe);
  EXPECT_EQ(ClassifyRepeat(policy, false, true), Repeat::kSafe);

  policy.idempotency = Idempotency::kIdempotent;
  EXPECT_EQ(ClassifyRepeat(policy, false, false), Repeat::kSafe);

  policy.idempotency = Idempotency::kNonIdempotent;
  EXPECT_EQ(ClassifyRepeat(policy, true, false), Repeat::kUnsafe);
  EXPECT_EQ(ClassifyRepeat(policy, true, true), Repeat::kUnsafe);
}

TEST(IsRetryableTest, UnavailableIsTheDefault) {
  const MethodPolicy policy;
  for (int code = 0; code <= 16; ++code) {
    EXPECT_EQ(IsRetryable(Failed(static_cast<Code>(code)), policy, false),
              static_cast<Code>(code) == Code::kUnavailable)
        << code;
  }
}

TEST(IsRetryableTest, ListedCodesReplaceTheDefault) {
  const MethodPolicy policy = Listing({Code::kInternal});
  EXPECT_TRUE(IsRetryable(Failed(Code::kInternal), policy, false));
  EXPECT_FALSE(IsRetryable(Failed(Code::kUnavailable), policy, false));
}

TEST(IsRetryableTest, OkIsNeverRetriedEvenIfListed) {
  EXPECT_FALSE(IsRetryable(Failed(Code::kOk), Listing({Code::kOk}), false));
}

TEST(IsRetryableTest, ResourceExhaustedNeedsTheServersConsentUnlessListed) {
  const Outcome bare = Failed(Code::kResourceExhausted);
  const MethodPolicy policy;
  EXPECT_FALSE(IsRetryable(bare, policy, false));
  EXPECT_TRUE(
      IsRetryable(With(bare, ServerHint::Source::kPushback), policy, false));
  EXPECT_TRUE(
      IsRetryable(With(bare, ServerHint::Source::kRetryInfo), policy, false));
  // A proxy may have added it.
  EXPECT_FALSE(
      IsRetryable(With(bare, ServerHint::Source::kRetryAfter), policy, false));
  EXPECT_FALSE(IsRetryable(With(bare, ServerHint::Source::kPushback, true),
                           policy, false));
  EXPECT_TRUE(IsRetryable(bare, Listing({Code::kResourceExhausted}), false));
}

TEST(IsRetryableTest, WhatWasMadeLocallyIsNeverRetriedEvenIfListed) {
  for (Code code : {Code::kResourceExhausted, Code::kCancelled}) {
    Outcome outcome = Failed(code);
    outcome.reached_a_peer = false;
    EXPECT_FALSE(IsRetryable(outcome, Listing({code}), false));
    outcome.reached_a_peer = true;
    EXPECT_TRUE(IsRetryable(outcome, Listing({code}), false));
  }
}

TEST(IsRetryableTest, AbortedNeedsConsentAndATravellingKey) {
  const Outcome bare = Failed(Code::kAborted);
  const Outcome told = With(bare, ServerHint::Source::kRetryInfo);
  const MethodPolicy policy;
  EXPECT_TRUE(IsRetryable(told, policy, /*key_travels=*/true));
  EXPECT_FALSE(IsRetryable(told, policy, /*key_travels=*/false));
  EXPECT_FALSE(IsRetryable(bare, policy, /*key_travels=*/true));
  EXPECT_TRUE(IsRetryable(bare, Listing({Code::kAborted}), false));
}

TEST(IsRetryableTest, HintsMakeNoOtherCodeRetryable) {
  EXPECT_FALSE(
      IsRetryable(With(Failed(Code::kInternal), ServerHint::Source::kPushback),
                  MethodPolicy(), true));
}

TEST(IsRetryableTest, AnAttemptTimeoutPasses) {
  Outcome outcome = Failed(Code::kDeadlineExceeded);
  EXPECT_FALSE(IsRetryable(outcome, MethodPolicy(), false));
  outcome.attempt_timed_out = true;
  EXPECT_TRUE(IsRetryable(outcome, MethodPolicy(), false));
}

// Rows: what happened. Columns: with a retryPolicy that lists UNAVAILABLE or
// without any; safe, unknown or unsafe to repeat.
struct SafeRow {
  const char* what;
  Outcome outcome;
  bool listed_safe, listed_unknown, listed_unsafe;
  bool bare_safe, bare_unknown, bare_unsafe;
};

TEST(IsSafeTest, TableOfTheRules) {
  const Outcome unavailable = Failed(Code::kUnavailable);
  Outcome timed_out = Failed(Code::kDeadlineExceeded);
  timed_out.attempt_timed_out = true;
  const SafeRow rows[] = {
      {"plain", unavailable, true, true, false, true, false, false},
      {"pushback", With(unavailable, ServerHint::Source::kPushback), true, true,
       true, true, true, true},
      {"stop pushback", With(unavailable, ServerHint::Source::kPushback, true),
       true, true, false, true, false, false},
      {"RetryInfo", With(unavailable, ServerHint::Source::kRetryInfo), true,
       true, true, true, true, true},
      {"retry-after", With(unavailable, ServerHint::Source::kRetryAfter), true,
       true, false, true, false, false},
      {"never connected", With(unavailable, TransportEvent::kNeverConnected),
       true, true, true, true, true, true},
      {"refused", With(unavailable, TransportEvent::kRefused), true, true,
       false, true, true, false},
      {"rate limited", With(unavailable, TransportEvent::kRateLimited), true,
       true, false, true, false, false},
      {"attempt timeout", timed_out, true, false, false, true, false, false},
  };
  const MethodPolicy listed = Listing({Code::kUnavailable});
  const MethodPolicy bare;
  for (const SafeRow& row : rows) {
    EXPECT_EQ(IsSafe(row.outcome, listed, Repeat::kSafe), row.listed_safe)
        << row.what;
    EXPECT_EQ(IsSafe(row.outcome, listed, Repeat::kUnknown), row.listed_unknown)
        << row.what;
    EXPECT_EQ(IsSafe(row.outcome, listed, Repeat::kUnsafe), row.listed_unsafe)
        << row.what;
    EXPECT_EQ(IsSafe(row.outcome, bare, Repeat::kSafe), row.bare_safe)
        << row.what;
    EXPECT_EQ(IsSafe(row.outcome, bare, Repeat::kUnknown), row.bare_unknown)
        << row.what;
    EXPECT_EQ(IsSafe(row.outcome, bare, Repeat::kUnsafe), row.bare_unsafe)
        << row.what;
  }
}

TEST(IsSafeTest, AnAttemptTimeoutIsFineWhereDeadlineExceededIsListed) {
  Outcome outcome = Failed(Code::kDeadlineExceeded);
  outcome.attempt_timed_out = true;
  EXPECT_TRUE(
      IsSafe(outcome, Listing({Code::kDeadlineExceeded}), Repeat::kUnknown));
  EXPECT_FALSE(
      IsSafe(outcome, Listing({Code::kDeadlineExceeded}), Repeat::kUnsafe));
}

}  // namespace
}  // namespace retry_guard
