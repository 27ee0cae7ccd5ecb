#include "retry_guard/policy/retry_budget.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace retry_guard {
namespace {

using absl::Milliseconds;
using absl::Seconds;

const absl::Time kStart = absl::UnixEpoch();

BudgetPolicy Policy(double ratio, int64_t min_retries) {
  BudgetPolicy policy;  // window 10 s
  policy.ratio = ratio;
  policy.min_retries = min_retries;
  return policy;
}

ThrottlePolicy TenTokens() {
  ThrottlePolicy policy;
  policy.max_milli_tokens = 10000;
  policy.milli_token_ratio = 100;
  return policy;
}

void Call(RetryBudget& budget, absl::Time now, int times) {
  for (int i = 0; i < times; ++i) budget.CountCall(now);
}

int TakeAll(RetryBudget& budget, absl::Time now) {
  int taken = 0;
  while (budget.Take(now)) ++taken;
  return taken;
}

TEST(RetryBudgetTest, LoneCallsGetTheMinimum) {
  RetryBudget budget(Policy(0.1, 2), std::nullopt);
  Call(budget, kStart, 2);
  EXPECT_EQ(budget.Left(kStart), 2);
  EXPECT_EQ(TakeAll(budget, kStart), 2);
  EXPECT_EQ(budget.Left(kStart), 0);
}

TEST(RetryBudgetTest, CallsEarnTheirRatio) {
  RetryBudget budget(Policy(0.1, 2), std::nullopt);
  Call(budget, kStart, 59);  // 2 + 5.9
  EXPECT_EQ(budget.Left(kStart), 7);
  EXPECT_EQ(TakeAll(budget, kStart), 7);
  Call(budget, kStart, 1);  // 2 + 6.0
  EXPECT_EQ(budget.Left(kStart), 1);
  EXPECT_EQ(TakeAll(budget, kStart), 1);
}

TEST(RetryBudgetTest, TokensComeBackWhenTheWindowHasPassed) {
  RetryBudget budget(Policy(0, 3), std::nullopt);
  EXPECT_EQ(TakeAll(budget, kStart), 3);
  EXPECT_EQ(TakeAll(budget, kStart + Milliseconds(9999)), 0);
  // One sixty-fourth of the window late at most: 156.25 ms.
  EXPECT_EQ(TakeAll(budget, kStart + Milliseconds(10157)), 3);
}

TEST(RetryBudgetTest, CallsStopEarningWhenTheWindowHasPassed) {
  RetryBudget budget(Policy(1, 0), std::nullopt);
  Call(budget, kStart, 5);
  EXPECT_EQ(budget.Left(kStart + Milliseconds(9843)), 5);
  EXPECT_EQ(budget.Left(kStart + Seconds(10)), 0);
  EXPECT_EQ(TakeAll(budget, kStart + Seconds(10)), 0);
}

TEST(RetryBudgetTest, ZeroRatioAndZeroMinimumForbidAll) {
  RetryBudget budget(Policy(0, 0), std::nullopt);
  Call(budget, kStart, 1000);
  EXPECT_EQ(budget.Left(kStart), 0);
  EXPECT_FALSE(budget.Take(kStart));
}

TEST(RetryBudgetTest, ATokenThatWasNotUsedCanBeGivenBack) {
  RetryBudget budget(Policy(0, 1), std::nullopt);
  const auto token = budget.Take(kStart);
  ASSERT_TRUE(token);
  EXPECT_FALSE(budget.Take(kStart + Seconds(1)));
  budget.GiveBack(*token);
  EXPECT_EQ(budget.Left(kStart + Seconds(1)), 1);
  EXPECT_EQ(TakeAll(budget, kStart + Seconds(1)), 1);
}

TEST(RetryBudgetTest, ATokenGivenBackAfterItsWindowChangesNothing) {
  RetryBudget budget(Policy(0, 1), std::nullopt);
  const auto token = budget.Take(kStart);
  EXPECT_EQ(TakeAll(budget, kStart + Seconds(11)), 1);
  budget.GiveBack(*token);
  EXPECT_EQ(TakeAll(budget, kStart + Seconds(11)), 0);
}

TEST(RetryBudgetTest, FlatCapHoldsOverItsOwnWindow) {
  BudgetPolicy policy = Policy(1, 100);
  policy.max_retries = 5;  // per 60 s
  RetryBudget budget(policy, std::nullopt);
  EXPECT_EQ(budget.Left(kStart), 5);
  EXPECT_EQ(TakeAll(budget, kStart), 5);
  EXPECT_EQ(TakeAll(budget, kStart + Seconds(59)), 0);
  EXPECT_EQ(TakeAll(budget, kStart + Seconds(61)), 5);
}

TEST(RetryBudgetTest, ARefusalByOneCostsNothingAtTheOthers) {
  // The cap of 3 is the narrowest, then the budget of 5.
  BudgetPolicy policy = Policy(0, 5);
  policy.max_retries = 3;
  policy.max_retries_window = Seconds(1);
  RetryBudget budget(policy, std::nullopt);
  EXPECT_EQ(TakeAll(budget, kStart), 3);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(budget.Take(kStart));
  // The cap has forgotten; the budget remembers 3 of 5, not 103.
  EXPECT_EQ(TakeAll(budget, kStart + Seconds(2)), 2);
  // And the cap is not charged for what the budget refused.
  EXPECT_EQ(TakeAll(budget, kStart + Seconds(11)), 3);
}

TEST(RetryBudgetTest, GivingBackServesTheCapToo) {
  BudgetPolicy policy = Policy(0, 5);
  policy.max_retries = 1;
  RetryBudget budget(policy, std::nullopt);
  const auto token = budget.Take(kStart);
  ASSERT_TRUE(token);
  EXPECT_EQ(budget.Left(kStart), 0);
  budget.GiveBack(*token);
  EXPECT_EQ(budget.Left(kStart), 1);
  EXPECT_EQ(TakeAll(budget, kStart), 1);
}

TEST(RetryBudgetTest, ThrottleRefusesAtHalfAndCostsNoToken) {
  RetryBudget budget(Policy(0, 4), TenTokens());
  EXPECT_EQ(budget.ThrottleMilliTokens(), 10000);
  for (int i = 0; i < 5; ++i) budget.CountFailure();  // 5000: not above half
  EXPECT_EQ(budget.ThrottleMilliTokens(), 5000);
  EXPECT_EQ(budget.Left(kStart), 0);
  EXPECT_FALSE(budget.Take(kStart));
  budget.CountSuccess();  // 5100
  EXPECT_EQ(budget.Left(kStart), 4);
  EXPECT_EQ(TakeAll(budget, kStart), 4);
}

TEST(RetryBudgetTest, WithoutAThrottleThereIsNoLevel) {
  RetryBudget budget(Policy(0, 1), std::nullopt);
  budget.CountFailure();
  budget.CountSuccess();
  EXPECT_EQ(budget.ThrottleMilliTokens(), std::nullopt);
  EXPECT_TRUE(budget.Take(kStart));
}

TEST(RetryBudgetTest, ReconfigureKeepsWhatWasCounted) {
  RetryBudget budget(Policy(0.1, 10), std::nullopt);
  Call(budget, kStart, 100);
  for (int i = 0; i < 15; ++i) EXPECT_TRUE(budget.Take(kStart));
  budget.Reconfigure(Policy(0.2, 5), std::nullopt, kStart);  // 5 + 20 - 15
  EXPECT_EQ(budget.Left(kStart), 10);
  budget.Reconfigure(Policy(0, 5), std::nullopt, kStart);  // 5 - 15
  EXPECT_EQ(TakeAll(budget, kStart), 0);
  budget.Reconfigure(Policy(0.1, 10), std::nullopt, kStart);
  EXPECT_EQ(TakeAll(budget, kStart), 5);
}

TEST(RetryBudgetTest, ReconfigureOfTheWindowCreatesNoToken) {
  for (absl::Duration window : {Seconds(1), Seconds(20)}) {
    RetryBudget budget(Policy(0.1, 10), std::nullopt);
    Call(budget, kStart, 100);
    for (int i = 0; i < 12; ++i) EXPECT_TRUE(budget.Take(kStart));
    BudgetPolicy other = Policy(0.1, 10);
    other.window = window;
    budget.Reconfigure(other, std::nullopt, kStart);
    EXPECT_EQ(budget.Left(kStart), 0);  // 10 - 12: starts with no calls
    EXPECT_EQ(TakeAll(budget, kStart), 0);
    Call(budget, kStart, 30);  // 13 - 12
    EXPECT_EQ(TakeAll(budget, kStart), 1);
    EXPECT_EQ(TakeAll(budget, kStart + window * 65 / 64), 10);
  }
}

TEST(RetryBudgetTest, ATokenOfTheOldWindowIsNoTokenOfTheNew) {
  BudgetPolicy policy = Policy(0, 1);
  policy.window = Seconds(1);
  RetryBudget budget(policy, std::nullopt);
  const auto token = budget.Take(kStart);
  // The old window has forgotten the token; the new one never knew it.
  budget.Reconfigure(Policy(0, 1), std::nullopt, kStart + Seconds(2));
  EXPECT_EQ(TakeAll(budget, kStart + Seconds(3)), 1);
  budget.GiveBack(*token);
  EXPECT_EQ(TakeAll(budget, kStart + Seconds(3)), 0);
}

TEST(RetryBudgetTest, AFlatCapThatIsNewStartsWithTheRetriesOfTheBudget) {
  RetryBudget budget(Policy(0, 10), std::nullopt);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(budget.Take(kStart));
  BudgetPolicy capped = Policy(0, 10);
  capped.max_retries = 6;
  budget.Reconfigure(capped, std::nullopt, kStart);
  EXPECT_EQ(budget.Left(kStart), 2);
  capped.max_retries_window = Seconds(30);
  budget.Reconfigure(capped, std::nullopt, kStart);
  EXPECT_EQ(TakeAll(budget, kStart), 2);
  budget.Reconfigure(Policy(0, 10), std::nullopt, kStart);
  EXPECT_EQ(TakeAll(budget, kStart), 4);
}

TEST(RetryBudgetTest, ReconfigureKeepsTheFillFractionOfTheThrottle) {
  RetryBudget budget(Policy(0, 1), TenTokens());
  budget.CountFailure();  // 90 %
  ThrottlePolicy other = TenTokens();
  other.max_milli_tokens = 4000;
  budget.Reconfigure(Policy(0, 1), other, kStart);
  EXPECT_EQ(budget.ThrottleMilliTokens(), 3600);
}

TEST(RetryBudgetTest, ExtremeParametersAreHarmless) {
  BudgetPolicy policy = Policy(1, INT64_MAX);
  policy.window = Seconds(315576000000);
  policy.max_retries = INT64_MAX;
  policy.max_retries_window = absl::Nanoseconds(1);
  RetryBudget budget(policy, std::nullopt);
  Call(budget, kStart, 10);
  EXPECT_TRUE(budget.Take(kStart));
  EXPECT_TRUE(budget.Take(kStart + absl::Hours(1000000)));
  EXPECT_GT(budget.Left(kStart), 1000000);
}

// What the contract says, by the letter: everything is remembered with its
// exact time.
class Model {
 public:
  explicit Model(const BudgetPolicy& policy) : policy_(policy) {}

  void Call(absl::Time now) { calls_.push_back(now); }
  void Retry(absl::Time now) { retries_.push_back(now); }
  void GiveBack(absl::Time taken_at) {
    retries_.erase(std::find(retries_.begin(), retries_.end(), taken_at));
  }

  // How far retries are below what the contract allows in a window that ends
  // at `now`. `slack` makes retries count for longer and calls for less.
  double Room(absl::Time now, absl::Duration slack) const {
    return static_cast<double>(policy_.min_retries) +
           policy_.ratio * Count(calls_, now - policy_.window + slack) -
           Count(retries_, now - policy_.window - slack);
  }

 private:
  static double Count(const std::vector<absl::Time>& times, absl::Time after) {
    return static_cast<double>(
        times.end() - std::upper_bound(times.begin(), times.end(), after));
  }

  const BudgetPolicy policy_;
  std::vector<absl::Time> calls_, retries_;  // in order
};

TEST(RetryBudgetTest, NeverAllowsMoreThanRatioInAnyWindow) {
  std::mt19937 random(20240607);
  for (int round = 0; round < 60; ++round) {
    const double ratios[] = {0, 0.01, 0.1, 0.25, 1};
    BudgetPolicy policy = Policy(ratios[random() % 5], random() % 12);
    policy.window = Milliseconds(1 + random() % 10000);
    const absl::Duration slack = policy.window / 64;
    // A step is a small part of the window, now and then a large one.
    const int64_t step = absl::ToInt64Nanoseconds(policy.window) / 100;
    RetryBudget budget(policy, std::nullopt);
    Model model(policy);
    std::vector<RetryBudget::Token> tokens;
    absl::Time now = kStart + absl::Hours(random() % 1000000);
    int granted = 0;
    for (int i = 0; i < 3000; ++i) {
      now += absl::Nanoseconds(random() % (2 * step));
      if (random() % 200 == 0) {
        now += policy.window * (1 + random() % 200) / 100;
      }
      const int choice = random() % 10;
      if (choice < 5) {
        budget.CountCall(now);
        model.Call(now);
      } else if (choice == 9 && !tokens.empty()) {
        const size_t which = random() % tokens.size();
        budget.GiveBack(tokens[which]);
        model.GiveBack(tokens[which].taken_at);
        tokens.erase(tokens.begin() + which);
      } else {
        const bool expected = budget.Left(now) > 0;
        const auto token = budget.Take(now);
        ASSERT_EQ(token.has_value(), expected);
        if (token) {
          ASSERT_EQ(token->taken_at, now);
          model.Retry(now);
          tokens.push_back(*token);
          ++granted;
          ASSERT_GE(model.Room(now, absl::ZeroDuration()), 0) << i;
        } else {
          // No refusal without need: one more would break the contract, read
          // with a slot of slack at either end.
          ASSERT_LT(model.Room(now, slack), 1) << i;
        }
      }
    }
    EXPECT_GE(granted, std::min<int64_t>(1, policy.min_retries));
  }
}

// Field case 11: everything fails in the same instant.
TEST(RetryBudgetTest, OfManyThreadsExactlyAsManyAsTokensAreServed) {
  for (int round = 0; round < 20; ++round) {
    RetryBudget budget(Policy(0.1, 10), std::nullopt);
    Call(budget, kStart, 200);  // 10 + 20 tokens
    std::atomic<bool> go{false};
    std::atomic<int> taken{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        while (!go.load()) std::this_thread::yield();
        for (int i = 0; i < 25; ++i) {
          if (budget.Take(kStart)) taken.fetch_add(1);
        }
      });
    }
    go = true;
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(taken.load(), 30);
  }
}

TEST(RetryBudgetTest, OfManyThreadsTheCapServesExactlyItsOwn) {
  for (int round = 0; round < 20; ++round) {
    BudgetPolicy policy = Policy(0, 40);
    policy.max_retries = 25;
    RetryBudget budget(policy, std::nullopt);
    std::atomic<bool> go{false};
    std::atomic<int> taken{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        while (!go.load()) std::this_thread::yield();
        for (int i = 0; i < 25; ++i) {
          if (budget.Take(kStart)) taken.fetch_add(1);
        }
      });
    }
    go = true;
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(taken.load(), 25);
    // What was taken and rolled back is there again.
    policy.max_retries = std::nullopt;
    budget.Reconfigure(policy, std::nullopt, kStart);
    ASSERT_EQ(TakeAll(budget, kStart), 15);
  }
}

TEST(RetryBudgetTest, NoTokenIsLostOrMadeByThreadsThatGiveBack) {
  RetryBudget budget(Policy(0, 8), std::nullopt);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&budget] {
      for (int i = 0; i < 2000; ++i) {
        if (auto token = budget.Take(kStart)) budget.GiveBack(*token);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.Left(kStart), 8);
  EXPECT_EQ(TakeAll(budget, kStart), 8);
}

TEST(RetryBudgetTest, ReconfigureAmongRunningThreadsCreatesNoToken) {
  RetryBudget budget(Policy(0, 50), std::nullopt);
  std::atomic<int> taken{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (!stop.load()) {
        budget.CountCall(kStart);
        if (budget.Take(kStart)) taken.fetch_add(1);
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    BudgetPolicy policy = Policy(0, 50);
    policy.window = Seconds(10 + i % 3);
    if (i % 2 == 0) policy.max_retries = 50;
    policy.max_retries_window = Seconds(60 + i % 5);
    budget.Reconfigure(policy, TenTokens(), kStart);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(taken.load(), 50);
}

}  // namespace
}  // namespace retry_guard
