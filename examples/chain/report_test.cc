#include "report.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chain {
namespace {

using ::testing::AllOf;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr absl::Duration kLeft = absl::Seconds(15);

// What a layer sees of a call that is as expected.
Arrival Good(Mode mode) {
  const absl::Duration rounded_up = kLeft + absl::Milliseconds(90);
  if (!UsesRetryGuard(mode)) return {rounded_up, rounded_up, kLeft, ""};
  return {rounded_up, kLeft, kLeft, std::string(kFrontend)};
}

// Two user requests, and so many attempts of them at each layer.
ModeRun RunWith(Mode mode, const std::vector<int>& attempts) {
  ModeRun run{mode, 2, absl::Seconds(1), {}};
  for (size_t i = 0; i < attempts.size(); ++i) {
    run.layers.push_back({std::string(kLayers[i]),
                          std::vector<Arrival>(attempts[i], Good(mode))});
  }
  return run;
}

TEST(BrokenClaimsTest, AreNoneIfAllIsWell) {
  EXPECT_THAT(BrokenClaims({RunWith(Mode::kNaive, {6, 18, 54}),
                            RunWith(Mode::kGrpcBuiltin, {6, 18, 54}),
                            RunWith(Mode::kRetryGuard, {6, 6, 6}),
                            RunWith(Mode::kRetryGuardDefaults, {12, 12, 12})}),
              IsEmpty());
}

TEST(BrokenClaimsTest, TellTheCountsThatAreOff) {
  EXPECT_THAT(BrokenClaims({RunWith(Mode::kNaive, {6, 18, 53}),
                            RunWith(Mode::kGrpcBuiltin, {6, 18, 55}),
                            RunWith(Mode::kRetryGuard, {6, 6, 7}),
                            RunWith(Mode::kRetryGuardDefaults, {12, 12, 13})}),
              ElementsAre("naive: 53 attempts at the bottom, not 54",
                          "grpc_builtin: 55 attempts at the bottom, not 54",
                          "retry_guard: 7 attempts at the bottom, not 6",
                          "retry_guard_defaults: 6.50 attempts per request, "
                          "more than 6.10"));
}

TEST(BrokenClaimsTest, TellADeadlineThatGrew) {
  ModeRun run = RunWith(Mode::kRetryGuard, {6, 6});
  run.layers[1].arrivals[3].effective = kLeft + absl::Microseconds(1);
  EXPECT_THAT(BrokenClaims({run}),
              ElementsAre("retry_guard: orders had 15.000001s left, its caller "
                          "15s"));
  // gRPC alone is known to do that.
  EXPECT_THAT(BrokenClaims({RunWith(Mode::kNaive, {6, 18})}), IsEmpty());
}

TEST(BrokenClaimsTest, TellWhoElseRetries) {
  ModeRun run = RunWith(Mode::kRetryGuard, {6, 6});
  run.layers[1].arrivals[3].owner = "gateway";
  EXPECT_THAT(BrokenClaims({run}),
              ElementsAre("retry_guard: retried by frontend, gateway"));
}

TEST(BudgetBoundTest, HasAFloorForEachWindow) {
  ModeRun run = RunWith(Mode::kRetryGuardDefaults, {20});
  run.user_requests = 20;
  EXPECT_THAT(BudgetBound(run), Optional(DoubleEq(1.1 + 0.5)));
  run.took = absl::Seconds(11);
  EXPECT_THAT(BudgetBound(run), Optional(DoubleEq(1.1 + 1.5)));
  run.mode = Mode::kRetryGuard;
  EXPECT_EQ(BudgetBound(run), std::nullopt);
}

TEST(JsonTest, HasTheCountsOfEachMode) {
  EXPECT_EQ(Json({RunWith(Mode::kNaive, {6, 18, 54}),
                  RunWith(Mode::kRetryGuard, {6, 6, 6})}),
            R"({"modes": {
  "naive": {"user_requests": 2, "attempts_by_layer": [6, 18, 54], )"
            R"("bottom_per_request": 27.0000},
  "retry_guard": {"user_requests": 2, "attempts_by_layer": [6, 6, 6], )"
            R"("bottom_per_request": 3.0000}
}}
)");
}

TEST(TablesTest, HaveALinePerModeAndPerLayer) {
  const std::vector<ModeRun> runs = {
      RunWith(Mode::kNaive, {6, 18}),
      RunWith(Mode::kRetryGuardDefaults, {6, 6})};
  EXPECT_THAT(
      AttemptsTable(runs),
      AllOf(HasSubstr("naive                      3.00       9.00  everybody"),
            HasSubstr("      3.00       3.00  frontend; the budget's bound: "
                      "6.10")));
  EXPECT_THAT(DeadlineTable(runs),
              AllOf(HasSubstr("orders     15.090  15.090  15.090  -           "
                              "            18 of 18\n"),
                    HasSubstr("orders     15.090  15.090  15.090  15.000  "
                              "15.000  15.000  0 of 6\n")));
}

}  // namespace
}  // namespace chain
