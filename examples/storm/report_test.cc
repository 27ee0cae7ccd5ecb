#include "report.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace storm {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

constexpr Phases kPhases{absl::Seconds(1), absl::Seconds(1), absl::Seconds(2),
                         absl::Seconds(4)};

// A request every 10 ms of the run; those due before `until` and after `from`
// fail.
std::vector<Request> Requests(absl::Duration failing_from,
                              absl::Duration failing_until) {
  std::vector<Request> requests;
  for (absl::Duration at; at < kPhases.End(); at += absl::Milliseconds(10)) {
    requests.push_back(
        {at, at < failing_from || at >= failing_until, absl::Milliseconds(20)});
  }
  return requests;
}

ModeRun RunWith(std::vector<Request> requests, int64_t attempts_per_second) {
  ModeRun run{"mode", std::move(requests), {}, absl::Seconds(1)};
  run.attempts.assign(static_cast<size_t>(kPhases.End() / run.bucket),
                      attempts_per_second);
  return run;
}

TEST(RecoveryTest, IsZeroWithoutAFailure) {
  EXPECT_THAT(
      Recovery(kPhases, Requests(absl::ZeroDuration(), absl::ZeroDuration())),
      Optional(absl::ZeroDuration()));
}

TEST(RecoveryTest, DoesNotLookAtTheTroubleItself) {
  EXPECT_THAT(
      Recovery(kPhases, Requests(kPhases.TroubleStart(), kPhases.TroubleEnd())),
      Optional(absl::ZeroDuration()));
}

TEST(RecoveryTest, CountsFromTheEndOfTheTrouble) {
  EXPECT_THAT(Recovery(kPhases, Requests(kPhases.TroubleStart(),
                                         absl::Milliseconds(5500))),
              Optional(absl::Milliseconds(1500)));
}

TEST(RecoveryTest, AllowsLessThanOneInTwentyToFail) {
  // 50 requests in half a second: 2 may fail, 3 may not.
  EXPECT_THAT(
      Recovery(kPhases, Requests(absl::Seconds(6), absl::Milliseconds(6020))),
      Optional(absl::ZeroDuration()));
  EXPECT_THAT(
      Recovery(kPhases, Requests(absl::Seconds(6), absl::Milliseconds(6030))),
      Optional(absl::Milliseconds(2100)));
}

TEST(RecoveryTest, IsNothingWhenTheRunEndsBadly) {
  EXPECT_EQ(Recovery(kPhases, Requests(kPhases.TroubleStart(), kPhases.End())),
            std::nullopt);
  // Good for most of the time, but not to the end.
  EXPECT_EQ(Recovery(kPhases, Requests(kPhases.End() - absl::Milliseconds(100),
                                       kPhases.End())),
            std::nullopt);
}

TEST(RecoveryTest, SkipsHalfSecondsWithoutRequests) {
  std::vector<Request> requests =
      Requests(kPhases.TroubleStart(), absl::Seconds(5));
  requests.erase(requests.begin() + 550, requests.begin() + 700);
  EXPECT_THAT(Recovery(kPhases, requests), Optional(absl::Seconds(1)));
}

TEST(LatencyQuantileTest, IsTheSmallestThatCoversTheFraction) {
  std::vector<Request> requests;
  EXPECT_EQ(LatencyQuantile(requests, 0.99), absl::ZeroDuration());
  for (int i = 100; i > 0; --i) {
    requests.push_back({absl::ZeroDuration(), true, absl::Milliseconds(i)});
  }
  EXPECT_EQ(LatencyQuantile(requests, 0.99), absl::Milliseconds(99));
  EXPECT_EQ(LatencyQuantile(requests, 0.5), absl::Milliseconds(50));
  EXPECT_EQ(LatencyQuantile(requests, 1), absl::Milliseconds(100));
  EXPECT_EQ(LatencyQuantile(requests, 0), absl::Milliseconds(1));
}

TEST(MeasureTest, CountsEachPhaseByItsOwnRequests) {
  // 2 of the blip's 100 requests, and 1.5 s of trouble.
  std::vector<Request> requests =
      Requests(absl::Milliseconds(2500), kPhases.TroubleEnd());
  requests[120].ok = false;
  requests[180].ok = false;
  ModeRun run = RunWith(requests, 100);
  run.attempts[2] = 400;
  run.attempts[3] = 400;

  const Metrics metrics = Measure(kPhases, run);
  EXPECT_EQ(metrics.requests, 800);
  EXPECT_EQ(metrics.attempts, 1400);
  EXPECT_DOUBLE_EQ(metrics.amplification, 1.75);
  EXPECT_DOUBLE_EQ(metrics.blip_ok_ratio, 0.98);
  // Seconds 2 to 5: 1000 attempts for 400 requests.
  EXPECT_DOUBLE_EQ(metrics.outage_amplification, 2.5);
  EXPECT_DOUBLE_EQ(metrics.ok_ratio, 648.0 / 800);
  EXPECT_THAT(metrics.recovery, Optional(absl::ZeroDuration()));
  EXPECT_EQ(metrics.p99, absl::Milliseconds(20));
}

TEST(JsonTest, HasTheNumbersOfEachMode) {
  ModeRun good =
      RunWith(Requests(absl::ZeroDuration(), absl::ZeroDuration()), 100);
  ModeRun bad = RunWith(Requests(kPhases.TroubleStart(), kPhases.End()), 300);
  good.mode = "good";
  bad.mode = "bad";
  EXPECT_EQ(Json(Outage::kSlow, kPhases, {good, bad}),
            R"({"outage": "slow", "modes": {
  "good": {"requests": 800, "attempts": 800, "amplification": 1.0000, )"
            R"("blip_ok_ratio": 1.0000, "outage_amplification": 1.0000, )"
            R"("ok_ratio": 1.0000, "recovery_s": 0.0, "p99_ms": 20.0},
  "bad": {"requests": 800, "attempts": 2400, "amplification": 3.0000, )"
            R"("blip_ok_ratio": 1.0000, "outage_amplification": 3.0000, )"
            R"("ok_ratio": 0.2500, "recovery_s": null, "p99_ms": 20.0}
}}
)");
}

TEST(TableTest, SaysNeverWhenThereIsNoRecovery) {
  const ModeRun run =
      RunWith(Requests(kPhases.TroubleStart(), kPhases.End()), 300);
  EXPECT_THAT(Table(kPhases, {run}), HasSubstr("never"));
}

TEST(ChartTest, DrawsAllModesToOneScale) {
  ModeRun low = RunWith({}, 100);
  ModeRun high = RunWith({}, 800);
  low.mode = "low";
  high.mode = "high";
  high.attempts[0] = 0;
  const std::string chart = Chart(kPhases, {low, high});
  // A run of eight seconds has ten columns a second, and the counts of this one
  // are per second: they stand in every tenth.
  EXPECT_THAT(chart, HasSubstr("█ = 8000"));
  EXPECT_THAT(chart, HasSubstr("low           ▁·········▁·········"));
  EXPECT_THAT(chart, HasSubstr("high          ··········█·········"));
  EXPECT_THAT(chart, HasSubstr("|healthy"));
}

}  // namespace
}  // namespace storm
