#include "retry_guard/policy/decision.h"

#include <set>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace retry_guard {
namespace {

TEST(DecisionTest, EveryReasonHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int i = 0; i < kReasonCount; ++i) {
    const std::string_view name = ReasonName(static_cast<Reason>(i));
    EXPECT_NE(name, "INVALID") << i;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_"),
              std::string_view::npos)
        << name;
  }
  EXPECT_EQ(ReasonName(static_cast<Reason>(kReasonCount)), "INVALID");
  EXPECT_EQ(ReasonName(Reason::kBudgetExhausted), "BUDGET_EXHAUSTED");
  EXPECT_EQ(VerdictName(Verdict::kRetry), "RETRY");
  EXPECT_EQ(VerdictName(Verdict::kReturn), "RETURN");
}

Decision Sample() {
  Decision decision;
  decision.method = "/pkg.Svc/Get";
  decision.attempt = 1;
  decision.code = absl::StatusCode::kUnavailable;
  decision.elapsed = absl::Milliseconds(12);
  return decision;
}

TEST(DecisionTest, ARetryReadsAsOneLine) {
  Decision decision = Sample();
  decision.verdict = Verdict::kRetry;
  decision.reason = Reason::kRetry;
  decision.delay = absl::Milliseconds(84) + absl::Nanoseconds(3);
  decision.remaining = absl::Milliseconds(988);
  decision.message = "busy";
  decision.peer = "ipv4:10.0.0.1:80";
  EXPECT_EQ(ToString(decision),
            "/pkg.Svc/Get attempt 1 UNAVAILABLE: retry in 84ms (elapsed 12ms, "
            "remaining 988ms, peer ipv4:10.0.0.1:80) \"busy\"");
  decision.resend = true;
  decision.delay = absl::ZeroDuration();
  EXPECT_EQ(ToString(decision),
            "/pkg.Svc/Get attempt 1 UNAVAILABLE: re-send in 0 (elapsed 12ms, "
            "remaining 988ms, peer ipv4:10.0.0.1:80) \"busy\"");
}

TEST(DecisionTest, ARefusalSaysWhy) {
  Decision decision = Sample();
  decision.reason = Reason::kBudgetExhausted;
  std::ostringstream os;
  os << decision;
  EXPECT_EQ(os.str(),
            "/pkg.Svc/Get attempt 1 UNAVAILABLE: return, BUDGET_EXHAUSTED "
            "(elapsed 12ms)");
}

TEST(DecisionTest, WhatWasNotSentHasNoAttempt) {
  Decision decision = Sample();
  decision.attempt = 0;
  decision.reason = Reason::kBreakerOpen;
  EXPECT_EQ(ToString(decision),
            "/pkg.Svc/Get not sent UNAVAILABLE: return, BREAKER_OPEN (elapsed "
            "12ms)");
}

TEST(DecisionTest, AMessageCannotForgeALogLine) {
  Decision decision = Sample();
  decision.message = "a\nb\"c\xc3\xa9";
  const std::string line = ToString(decision);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_NE(line.find("\"a\\nb\\\"c\xc3\xa9\""), std::string::npos) << line;
}

TEST(DecisionTest, NamesStreamForTestMessages) {
  std::ostringstream os;
  os << Reason::kRetry << " " << Verdict::kReturn;
  EXPECT_EQ(os.str(), "RETRY RETURN");
}

}  // namespace
}  // namespace retry_guard
