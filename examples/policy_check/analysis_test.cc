#include "analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "print.h"

namespace policy_check {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kPolicy[] = R"json({"methodConfig": [{
  "name": [{"service": "s"}], TIMEOUT
  "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.1s",
                  "maxBackoff": "1s", "backoffMultiplier": 4,
                  "retryableStatusCodes": [CODES]},
  "retryGuard": {GUARD}}]})json";

MethodAnalysis AnalyseOne(const std::string& guard,
                          const std::string& timeout = "\"timeout\": \"2s\",",
                          const std::string& codes = "\"UNAVAILABLE\"",
                          std::optional<absl::Duration> caller = std::nullopt) {
  const std::string json = absl::StrReplaceAll(
      kPolicy, {{"TIMEOUT", timeout}, {"GUARD", guard}, {"CODES", codes}});
  const auto config = retry_guard::ParseServiceConfig(json);
  EXPECT_TRUE(config.ok()) << config.status();
  return Analyse(**config, "/s/M", caller).methods.at(0);
}

TEST(AnalysisTest, AddsUpTheWorstCase) {
  const MethodAnalysis m =
      AnalyseOne(R"("perAttemptTimeout": "0.5s", "idempotency": "IDEMPOTENT")");
  EXPECT_EQ(m.max_attempts, 3);
  EXPECT_THAT(m.ladder,
              ElementsAre(absl::Milliseconds(100), absl::Milliseconds(400)));
  // 3 * 0.5 + 0.1 + 0.4
  EXPECT_EQ(m.worst_case, absl::Seconds(2));
  EXPECT_EQ(m.worst_case_with_deadline, absl::Seconds(2));
  EXPECT_EQ(m.longest_hinted_wait, absl::Seconds(72));
  EXPECT_THAT(m.warnings, IsEmpty());
}

TEST(AnalysisTest, AKeyDoesNotMakeSafeWhatIsSaidNotToBe) {
  EXPECT_THAT(AnalyseOne(R"("idempotencyKey": true)").repeat,
              HasSubstr("safe to repeat: any"));
  EXPECT_THAT(AnalyseOne(R"("idempotencyKey": true,
                            "idempotency": "NON_IDEMPOTENT")")
                  .repeat,
              HasSubstr("not safe to repeat"));
}

TEST(AnalysisTest, HasNoEndWithoutAnyTimeout) {
  const MethodAnalysis m = AnalyseOne("", "");
  EXPECT_EQ(m.worst_case, absl::InfiniteDuration());
  EXPECT_THAT(m.warnings, Contains(HasSubstr("without a deadline")));
}

TEST(AnalysisTest, TakesTheTighterDeadline) {
  const MethodAnalysis m = AnalyseOne("", "\"timeout\": \"2s\",",
                                      "\"UNAVAILABLE\"", absl::Seconds(1));
  EXPECT_EQ(m.deadline, absl::Seconds(1));
  EXPECT_EQ(m.worst_case_with_deadline, absl::Seconds(1));
}

TEST(AnalysisTest, MultipliesLayersUnlessOneRetries) {
  const Amplification a = AnalyseOne("").amplification;
  EXPECT_EQ(a.this_layer, 3);
  EXPECT_EQ(a.two_layers_without_marker, 9);
  EXPECT_EQ(a.three_layers_without_marker, 27);
  EXPECT_EQ(a.any_layers_with_marker, 3);
}

TEST(AnalysisTest, WarnsOfWaitsLongerThanTheDeadline) {
  const MethodAnalysis m = AnalyseOne("", "\"timeout\": \"0.5s\",");
  EXPECT_THAT(m.warnings,
              Contains(HasSubstr("maxBackoff (1s) is longer than the "
                                 "deadline (500ms)")));
}

TEST(AnalysisTest, WarnsOfAnAttemptTimeoutThatNeverFires) {
  const MethodAnalysis m = AnalyseOne(R"("perAttemptTimeout": "2s")");
  EXPECT_THAT(m.warnings, Contains(HasSubstr("perAttemptTimeout (2s)")));
}

TEST(AnalysisTest, WarnsOfAmbiguousCodesUnlessTheMethodIsIdempotent) {
  const char kCodes[] = R"("UNAVAILABLE", "DEADLINE_EXCEEDED")";
  EXPECT_THAT(AnalyseOne("", "", kCodes).warnings,
              Contains(HasSubstr("DEADLINE_EXCEEDED may come back after")));
  EXPECT_THAT(AnalyseOne(R"("idempotency": "IDEMPOTENT")", "", kCodes).warnings,
              Not(Contains(HasSubstr("may come back after"))));
  EXPECT_THAT(
      AnalyseOne(R"("idempotency": "NON_IDEMPOTENT")", "", kCodes).warnings,
      Contains(HasSubstr("NON_IDEMPOTENT, but lists")));
}

TEST(AnalysisTest, WarnsOfCodesThatNobodyWouldRetry) {
  EXPECT_THAT(AnalyseOne("", "", "\"ABORTED\"").warnings,
              Contains(HasSubstr("UNAVAILABLE not listed")));
}

TEST(AnalysisTest, WarnsOfWhatCoreIgnores) {
  EXPECT_THAT(AnalyseOne(R"("maxAttempts": 8)").warnings,
              Contains(HasSubstr("stop after 5 attempts")));
}

TEST(AnalysisTest, SaysNeverForALayerThatDoesNotRetry) {
  const MethodAnalysis m = AnalyseOne(R"("layer": "NEVER")", "");
  EXPECT_EQ(m.max_attempts, 1);
  EXPECT_THAT(m.ladder, IsEmpty());
  EXPECT_THAT(m.warnings, IsEmpty());
}

TEST(AnalysisTest, CoversEveryNameOfTheFile) {
  const auto config = retry_guard::ParseServiceConfig(
      R"({"methodConfig": [{"name": [{"service": "b"},
                                     {"service": "a", "method": "M"}, {}]}]})");
  ASSERT_TRUE(config.ok()) << config.status();
  std::vector<std::string> names;
  for (const auto& m : Analyse(**config, std::nullopt, std::nullopt).methods) {
    names.push_back(m.name);
  }
  EXPECT_THAT(names, ElementsAre("", "/a/M", "/b/"));
}

TEST(PrintTest, ListsEveryErrorForMachines) {
  EXPECT_EQ(ErrorsToJson(absl::InvalidArgumentError("a: x\nb: \"y\"")),
            "{\n    \"ok\": false,\n    \"errors\": [\n        \"a: x\",\n"
            "        \"b: \\\"y\\\"\"\n    ]\n}\n");
}

}  // namespace
}  // namespace policy_check
