// Another policy under traffic.

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

constexpr int kFlips = 1000;
constexpr int kCalls = 100;  // at least, meanwhile
constexpr int kThreads = 4;

class ReloadTest : public EndToEndTest {
 protected:
  // Puts `a` and `b` in force in turn while four threads call; counts how their
  // calls ended, by code.
  void CallWhileFlipping(const std::string& a, const std::string& b,
                         std::array<std::atomic<int>, 17>& ended) {
    std::atomic<bool> stop{false};
    std::atomic<int> calls{0};
    std::vector<std::thread> callers;
    for (int i = 0; i < kThreads; ++i) {
      callers.emplace_back([&] {
        while (!stop) {
          grpc::ClientContext context;
          ++ended[CallUnary(&context).status.error_code()];
          ++calls;
        }
      });
    }
    for (int flip = 0; flip < kFlips || calls < kCalls; ++flip) {
      ASSERT_TRUE(factory_->UpdateServiceConfig(flip % 2 == 0 ? b : a).ok());
    }
    stop = true;
    for (std::thread& caller : callers) caller.join();
  }
};
INSTANTIATE_TEST_SUITE_P(Styles, ReloadTest,
                         ::testing::Values(Style::kSync, Style::kCallback),
                         StyleParamName);

TEST_P(ReloadTest, NoCallFailsForIt) {
  const std::string a = Policy(3).Json();
  const std::string b = Policy(5).Guard(R"("jitter": "NONE")").Json();
  MakeChannelByHand(a);
  std::array<std::atomic<int>, 17> ended = {};
  CallWhileFlipping(a, b, ended);
  EXPECT_GT(ended[grpc::StatusCode::OK], 0);
  for (int code = 1; code < 17; ++code) EXPECT_EQ(ended[code], 0) << code;
}

TEST_P(ReloadTest, NoTokenIsCreatedOrLost) {
  // Fifty retries in an hour, whatever else changes; calls earn nothing.
  const std::string budget =
      R"("ratio": 0, "minRetries": 50, "window": "3600s")";
  const std::string a = Policy(3).Budget(budget).NoBreaker().Json();
  const std::string b = Policy(20).Budget(budget).NoBreaker().Json();
  server_.SetScript({Fail(grpc::StatusCode::UNAVAILABLE)});
  MakeChannelByHand(a);
  std::array<std::atomic<int>, 17> ended = {};
  CallWhileFlipping(a, b, ended);
  // Those that the flipping was too quick for.
  for (int i = 0; Snapshot().budget_left > 0 && i < 50; ++i) CallUnary();
  EXPECT_EQ(Snapshot().budget_left, 0);
  EXPECT_EQ(Snapshot().retries, 50);
}

TEST_P(ReloadTest, BudgetParametersMayChangeAndTheBoundHolds) {
  // The larger budget bounds them all: what was spent stays spent.
  const std::string small = Policy(3)
                                .Budget(R"("ratio": 0, "minRetries": 10,
                                           "window": "3600s")")
                                .NoBreaker()
                                .Json();
  const std::string large = Policy(3)
                                .Budget(R"("ratio": 0, "minRetries": 60,
                                           "window": "3600s")")
                                .NoBreaker()
                                .Json();
  server_.SetScript({Fail(grpc::StatusCode::UNAVAILABLE)});
  MakeChannelByHand(small);
  std::array<std::atomic<int>, 17> ended = {};
  CallWhileFlipping(small, large, ended);
  ASSERT_TRUE(factory_->UpdateServiceConfig(large).ok());
  for (int i = 0; Snapshot().budget_left > 0 && i < 60; ++i) CallUnary();
  EXPECT_EQ(Snapshot().retries, 60);
}

TEST_P(ReloadTest, ABadConfigLeavesTheOneInForce) {
  server_.SetScript({Fail(grpc::StatusCode::UNAVAILABLE), Succeed()});
  MakeChannelByHand(Policy(2));
  const absl::Status bad = factory_->UpdateServiceConfig(
      R"({"methodConfig": [{"name": [{}], "retryPolicy": {}}]})");
  EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(CallUnary().status.ok());
  EXPECT_EQ(server_.calls(), 2);
}

}  // namespace
}  // namespace retry_guard::end2end
