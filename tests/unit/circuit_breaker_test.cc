#include "retry_guard/policy/circuit_breaker.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace retry_guard {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using Result = CircuitBreaker::Result;

const absl::Time kStart = absl::UnixEpoch();
constexpr double kMiddle = 0.5;  // jitter of exactly 1.0

BreakerPolicy InARow(int64_t failures) {
  BreakerPolicy policy;
  policy.failure_rate = 0;
  policy.consecutive_failures = failures;
  return policy;  // open for 1 s, at most 5 s, 1 probe
}

std::optional<CircuitBreaker::Transition> Attempt(CircuitBreaker& breaker,
                                                  absl::Time now, Result result,
                                                  int times = 1) {
  std::optional<CircuitBreaker::Transition> last;
  for (int i = 0; i < times; ++i) {
    auto admission = breaker.AdmitFirst(now);
    EXPECT_TRUE(admission.permit);
    last = admission.permit.Settle(result, now, kMiddle);
    EXPECT_FALSE(admission.permit);  // settled
  }
  return last;
}

void Trip(CircuitBreaker& breaker, absl::Time now) {
  Attempt(breaker, now, Result::kFailure, 5);
  ASSERT_EQ(breaker.state(), BreakerState::kOpen);
}

// ---- closed

TEST(CircuitBreakerTest, OpensWhenTheRateIsReached) {
  CircuitBreaker breaker{BreakerPolicy()};  // 50 % of at least 20 in 3 s
  Attempt(breaker, kStart, Result::kSuccess, 10);
  Attempt(breaker, kStart, Result::kFailure, 9);  // 9 of 19
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
  const auto transition =
      Attempt(breaker, kStart, Result::kFailure);  // 10 of 20
  ASSERT_TRUE(transition);
  EXPECT_EQ(transition->from, BreakerState::kClosed);
  EXPECT_EQ(transition->to, BreakerState::kOpen);
  EXPECT_EQ(breaker.state(), BreakerState::kOpen);
}

TEST(CircuitBreakerTest, StaysClosedBelowTheRateOrTheMinimum) {
  CircuitBreaker breaker{BreakerPolicy()};
  Attempt(breaker, kStart, Result::kFailure, 19);  // 19 of 19, too few
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
  CircuitBreaker busy{BreakerPolicy()};
  Attempt(busy, kStart, Result::kSuccess, 1001);
  Attempt(busy, kStart, Result::kFailure, 1000);
  EXPECT_EQ(busy.state(), BreakerState::kClosed);
  Attempt(busy, kStart, Result::kFailure);  // 1001 of 2002
  EXPECT_EQ(busy.state(), BreakerState::kOpen);
}

TEST(CircuitBreakerTest, RateThatNoDoubleHoldsIsStillReached) {
  BreakerPolicy policy;
  policy.failure_rate = 0.1;
  CircuitBreaker breaker(policy);
  Attempt(breaker, kStart, Result::kSuccess, 27);
  Attempt(breaker, kStart, Result::kFailure, 2);
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
  Attempt(breaker, kStart, Result::kFailure);  // 3 of 30
  EXPECT_EQ(breaker.state(), BreakerState::kOpen);
}

TEST(CircuitBreakerTest, OldAttemptsLeaveTheWindow) {
  CircuitBreaker breaker{BreakerPolicy()};
  Attempt(breaker, kStart, Result::kSuccess, 1000);
  // 3 s later they no longer hide that everything fails.
  Attempt(breaker, kStart + Seconds(3), Result::kFailure, 20);
  EXPECT_EQ(breaker.state(), BreakerState::kOpen);
}

TEST(CircuitBreakerTest, NeutralResultsCountNowhere) {
  CircuitBreaker breaker{BreakerPolicy()};
  Attempt(breaker, kStart, Result::kNeutral, 1000);
  Attempt(breaker, kStart, Result::kFailure, 19);
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
  Attempt(breaker, kStart, Result::kFailure);
  EXPECT_EQ(breaker.state(), BreakerState::kOpen);
}

TEST(CircuitBreakerTest, OpensAfterFailuresInARow) {
  CircuitBreaker breaker(InARow(3));
  Attempt(breaker, kStart, Result::kFailure, 2);
  Attempt(breaker, kStart, Result::kSuccess);
  Attempt(breaker, kStart, Result::kFailure, 2);
  Attempt(breaker, kStart, Result::kNeutral);  // interrupts nothing
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
  EXPECT_TRUE(Attempt(breaker, kStart, Result::kFailure));
  EXPECT_EQ(breaker.state(), BreakerState::kOpen);
}

TEST(CircuitBreakerTest, AdmitsEverythingAndCountsNothingWhenOff) {
  CircuitBreaker breaker(InARow(0));
  EXPECT_FALSE(Attempt(breaker, kStart, Result::kFailure, 1000));
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
  EXPECT_TRUE(breaker.AdmitRetry(kStart).permit);
  breaker.Reconfigure(InARow(3), kStart);
  Attempt(breaker, kStart, Result::kFailure, 2);
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
}

// ---- open

TEST(CircuitBreakerTest, RefusesWhileOpenAndTellsForHowLong) {
  CircuitBreaker breaker(InARow(5));
  Trip(breaker, kStart);  // for 1 s
  auto first = breaker.AdmitFirst(kStart + Milliseconds(300));
  EXPECT_FALSE(first.permit);
  EXPECT_FALSE(first.transition);
  EXPECT_EQ(first.retry_after, Milliseconds(700));
  EXPECT_EQ(breaker.AdmitRetry(kStart + Milliseconds(300)).retry_after,
            Milliseconds(700));
  EXPECT_EQ(breaker.UntilNextProbe(kStart + Milliseconds(300)),
            Milliseconds(700));
  EXPECT_FALSE(breaker.AdmitFirst(kStart + Milliseconds(999)).permit);
}

TEST(CircuitBreakerTest, OpenTimeIsJitteredByAFifth) {
  for (auto [unit, millis] :
       {std::pair<double, int>{0, 800}, {0.25, 900}, {0.75, 1100}}) {
    CircuitBreaker breaker(InARow(1));
    breaker.AdmitFirst(kStart).permit.Settle(Result::kFailure, kStart, unit);
    EXPECT_EQ(breaker.UntilNextProbe(kStart), Milliseconds(millis));
  }
}

TEST(CircuitBreakerTest, ResultsFromBeforeItOpenedChangeNothing) {
  CircuitBreaker breaker(InARow(5));
  auto slow_ok = breaker.AdmitFirst(kStart);
  auto slow_failure = breaker.AdmitFirst(kStart);
  auto cancelled = breaker.AdmitFirst(kStart);
  Trip(breaker, kStart);
  auto probe = breaker.AdmitFirst(kStart + Seconds(1));
  ASSERT_TRUE(probe.permit.is_probe());

  const absl::Time late = kStart + Milliseconds(1100);
  EXPECT_FALSE(slow_ok.permit.Settle(Result::kSuccess, late, kMiddle));
  EXPECT_FALSE(slow_failure.permit.Settle(Result::kFailure, late, kMiddle));
  EXPECT_FALSE(cancelled.permit.Settle(Result::kNeutral, late, kMiddle));
  EXPECT_EQ(breaker.state(), BreakerState::kHalfOpen);
  EXPECT_EQ(breaker.stale_results(), 2);  // neutral would not have counted

  EXPECT_TRUE(probe.permit.Settle(Result::kSuccess, late, kMiddle));
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
}

// ---- half-open

TEST(CircuitBreakerTest, OneProbeAtATimeAfterTheOpenTime) {
  CircuitBreaker breaker(InARow(5));
  Trip(breaker, kStart);
  const absl::Time now = kStart + Seconds(1);
  EXPECT_EQ(breaker.UntilNextProbe(now), absl::ZeroDuration());
  EXPECT_EQ(breaker.state(), BreakerState::kOpen);  // until somebody asks
  // A retry never probes, nor does it move the state.
  const auto retry = breaker.AdmitRetry(now);
  EXPECT_FALSE(retry.permit);
  EXPECT_GT(retry.retry_after, absl::ZeroDuration());
  EXPECT_EQ(breaker.state(), BreakerState::kOpen);

  auto probe = breaker.AdmitFirst(now);
  ASSERT_TRUE(probe.permit);
  EXPECT_TRUE(probe.permit.is_probe());
  ASSERT_TRUE(probe.transition);
  EXPECT_EQ(probe.transition->from, BreakerState::kOpen);
  EXPECT_EQ(probe.transition->to, BreakerState::kHalfOpen);
  EXPECT_EQ(breaker.state(), BreakerState::kHalfOpen);

  const auto second = breaker.AdmitFirst(now + Milliseconds(100));
  EXPECT_FALSE(second.permit);
  EXPECT_EQ(second.retry_after, Milliseconds(900));  // the probe may hang
  EXPECT_FALSE(breaker.AdmitRetry(now).permit);
}

TEST(CircuitBreakerTest, SuccessfulProbeClosesAndClearsTheCounters) {
  CircuitBreaker breaker{BreakerPolicy()};
  Attempt(breaker, kStart, Result::kFailure, 20);
  ASSERT_EQ(breaker.state(), BreakerState::kOpen);
  const absl::Time now = kStart + Seconds(1);
  const auto transition = Attempt(breaker, now, Result::kSuccess);
  ASSERT_TRUE(transition);
  EXPECT_EQ(transition->from, BreakerState::kHalfOpen);
  EXPECT_EQ(transition->to, BreakerState::kClosed);
  // The 20 failures are still within the 3 s, but forgotten.
  Attempt(breaker, now, Result::kFailure, 19);
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
  Attempt(breaker, now, Result::kFailure);
  EXPECT_EQ(breaker.state(), BreakerState::kOpen);
}

TEST(CircuitBreakerTest, EachFailedProbeDoublesTheOpenTimeUpToItsMaximum) {
  CircuitBreaker breaker(InARow(5));
  absl::Time now = kStart;
  Trip(breaker, now);
  for (int seconds : {1, 2, 4, 5, 5}) {
    EXPECT_EQ(breaker.UntilNextProbe(now), Seconds(seconds));
    now += Seconds(seconds);
    const auto transition = Attempt(breaker, now, Result::kFailure);
    ASSERT_TRUE(transition);
    EXPECT_EQ(transition->from, BreakerState::kHalfOpen);
    EXPECT_EQ(transition->to, BreakerState::kOpen);
  }
  // Once closed, it starts from the beginning.
  now += Seconds(5);
  Attempt(breaker, now, Result::kSuccess);
  Trip(breaker, now);
  EXPECT_EQ(breaker.UntilNextProbe(now), Seconds(1));
}

TEST(CircuitBreakerTest, SeveralProbesMustAllSucceed) {
  BreakerPolicy policy = InARow(5);
  policy.probes = 3;
  CircuitBreaker breaker(policy);
  Trip(breaker, kStart);
  const absl::Time now = kStart + Seconds(1);
  auto a = breaker.AdmitFirst(now);
  auto b = breaker.AdmitFirst(now);
  auto c = breaker.AdmitFirst(now);
  EXPECT_TRUE(a.permit && b.permit && c.permit);
  EXPECT_FALSE(b.transition);
  EXPECT_FALSE(breaker.AdmitFirst(now).permit);
  EXPECT_FALSE(a.permit.Settle(Result::kSuccess, now, kMiddle));
  EXPECT_FALSE(b.permit.Settle(Result::kSuccess, now, kMiddle));
  EXPECT_EQ(breaker.state(), BreakerState::kHalfOpen);
  EXPECT_TRUE(c.permit.Settle(Result::kSuccess, now, kMiddle));
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
}

TEST(CircuitBreakerTest, OneFailedProbeOfSeveralReopens) {
  BreakerPolicy policy = InARow(5);
  policy.probes = 2;
  CircuitBreaker breaker(policy);
  Trip(breaker, kStart);
  const absl::Time now = kStart + Seconds(1);
  auto a = breaker.AdmitFirst(now);
  auto b = breaker.AdmitFirst(now);
  EXPECT_TRUE(a.permit.Settle(Result::kFailure, now, kMiddle));
  EXPECT_EQ(breaker.state(), BreakerState::kOpen);
  EXPECT_FALSE(b.permit.Settle(Result::kSuccess, now, kMiddle));
  EXPECT_EQ(breaker.state(), BreakerState::kOpen);
  EXPECT_EQ(breaker.stale_results(), 1);
}

// Field case 5: every neutral ending frees the slot.
TEST(CircuitBreakerTest, NeutralEndingFreesTheSlotForAFreshProbeAtOnce) {
  CircuitBreaker breaker(InARow(5));
  Trip(breaker, kStart);
  const absl::Time now = kStart + Seconds(1);
  EXPECT_FALSE(Attempt(breaker, now, Result::kNeutral));
  EXPECT_EQ(breaker.state(), BreakerState::kHalfOpen);
  {
    auto dropped = breaker.AdmitFirst(now);
    ASSERT_TRUE(dropped.permit.is_probe());
  }
  auto moved = breaker.AdmitFirst(now);
  ASSERT_TRUE(moved.permit.is_probe());
  moved.permit = CircuitBreaker::Permit();  // overwritten: dropped too
  EXPECT_TRUE(Attempt(breaker, now, Result::kSuccess));
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
}

TEST(CircuitBreakerTest, HangingProbeLosesItsSlot) {
  CircuitBreaker breaker(InARow(5));
  Trip(breaker, kStart);
  auto hanging = breaker.AdmitFirst(kStart + Seconds(1));
  EXPECT_FALSE(breaker.AdmitFirst(kStart + Milliseconds(1999)).permit);
  EXPECT_EQ(breaker.UntilNextProbe(kStart + Seconds(2)), absl::ZeroDuration());
  auto fresh = breaker.AdmitFirst(kStart + Seconds(2));
  ASSERT_TRUE(fresh.permit.is_probe());
  // Its failure comes too late to count.
  EXPECT_FALSE(
      hanging.permit.Settle(Result::kFailure, kStart + Seconds(2), kMiddle));
  EXPECT_EQ(breaker.state(), BreakerState::kHalfOpen);
  EXPECT_EQ(breaker.stale_results(), 1);
  EXPECT_TRUE(
      fresh.permit.Settle(Result::kSuccess, kStart + Seconds(2), kMiddle));
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
}

TEST(CircuitBreakerTest, SlowBackendCanCloseIt) {
  // Every call takes 2.5 s, longer than openFor.
  CircuitBreaker breaker(InARow(5));
  Trip(breaker, kStart);
  auto slow = breaker.AdmitFirst(kStart + Seconds(1));
  auto second = breaker.AdmitFirst(kStart + Seconds(2));
  ASSERT_TRUE(second.permit.is_probe());
  EXPECT_TRUE(slow.permit.Settle(Result::kSuccess, kStart + Milliseconds(3500),
                                 kMiddle));
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
}

// ---- permits

TEST(CircuitBreakerTest, PermitIsSettledOnceAndMovedFromIsEmpty) {
  CircuitBreaker breaker(InARow(2));
  CircuitBreaker::Permit empty;
  EXPECT_FALSE(empty);
  EXPECT_FALSE(empty.Settle(Result::kFailure, kStart, kMiddle));

  auto admission = breaker.AdmitFirst(kStart);
  CircuitBreaker::Permit permit = std::move(admission.permit);
  EXPECT_FALSE(admission.permit);
  EXPECT_TRUE(permit);
  EXPECT_FALSE(admission.permit.Settle(Result::kFailure, kStart, kMiddle));
  permit.Settle(Result::kFailure, kStart, kMiddle);
  permit.Settle(Result::kFailure, kStart, kMiddle);  // empty by now
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
  CircuitBreaker::Permit& self = permit;
  permit = std::move(self);
  EXPECT_FALSE(permit);
}

// ---- reconfigure

TEST(CircuitBreakerTest, ReconfigureKeepsStateAndCounters) {
  CircuitBreaker breaker(InARow(5));
  Attempt(breaker, kStart, Result::kFailure, 3);
  breaker.Reconfigure(InARow(4), kStart);
  EXPECT_TRUE(Attempt(breaker, kStart, Result::kFailure));
  BreakerPolicy longer = InARow(4);
  longer.open_for = Seconds(3);
  breaker.Reconfigure(longer, kStart);
  EXPECT_EQ(breaker.state(), BreakerState::kOpen);
  EXPECT_EQ(breaker.UntilNextProbe(kStart), Seconds(1));
}

TEST(CircuitBreakerTest, ReconfigureOfTheWindowCarriesTheCounts) {
  CircuitBreaker breaker{BreakerPolicy()};
  Attempt(breaker, kStart, Result::kSuccess, 10);
  Attempt(breaker, kStart, Result::kFailure, 9);
  BreakerPolicy longer;
  longer.window = Seconds(30);
  breaker.Reconfigure(longer, kStart);
  EXPECT_TRUE(Attempt(breaker, kStart + Seconds(20), Result::kFailure));
}

TEST(CircuitBreakerTest, SwitchingOffClosesAnOpenBreaker) {
  CircuitBreaker breaker(InARow(5));
  auto before = breaker.AdmitFirst(kStart);
  Trip(breaker, kStart);
  breaker.Reconfigure(InARow(0), kStart);
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
  auto off = breaker.AdmitFirst(kStart);
  EXPECT_TRUE(off.permit);
  breaker.Reconfigure(InARow(1), kStart);
  // Neither permit belongs to the breaker that is on now.
  EXPECT_FALSE(before.permit.Settle(Result::kFailure, kStart, kMiddle));
  EXPECT_FALSE(off.permit.Settle(Result::kFailure, kStart, kMiddle));
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
  EXPECT_TRUE(Attempt(breaker, kStart, Result::kFailure));
}

TEST(CircuitBreakerTest, StatesHaveNames) {
  EXPECT_EQ(BreakerStateName(BreakerState::kClosed), "closed");
  EXPECT_EQ(BreakerStateName(BreakerState::kOpen), "open");
  EXPECT_EQ(BreakerStateName(BreakerState::kHalfOpen), "half-open");
}

// ---- threads

TEST(CircuitBreakerTest, OfManyThreadsOneOpensIt) {
  for (int round = 0; round < 20; ++round) {
    CircuitBreaker breaker{BreakerPolicy()};
    std::atomic<int> opened{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          auto admission = breaker.AdmitFirst(kStart);
          if (admission.permit.Settle(Result::kFailure, kStart, kMiddle)) {
            opened.fetch_add(1);
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(opened.load(), 1);
    ASSERT_EQ(breaker.state(), BreakerState::kOpen);
  }
}

TEST(CircuitBreakerTest, OfManyThreadsOnlyAsManyAsProbesAreAdmitted) {
  for (int round = 0; round < 20; ++round) {
    BreakerPolicy policy = InARow(5);
    policy.probes = 3;
    CircuitBreaker breaker(policy);
    Trip(breaker, kStart);
    const absl::Time now = kStart + Seconds(1);
    std::vector<std::vector<CircuitBreaker::Permit>> permits(8);
    std::atomic<int> transitions{0};
    std::vector<std::thread> threads;
    for (auto& mine : permits) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) {
          auto admission = breaker.AdmitFirst(now);
          if (admission.transition) transitions.fetch_add(1);
          if (admission.permit) mine.push_back(std::move(admission.permit));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    size_t admitted = 0;
    for (const auto& mine : permits) admitted += mine.size();
    ASSERT_EQ(admitted, 3u);
    ASSERT_EQ(transitions.load(), 1);
  }
}

// Every change of state is reported exactly once, whatever the threads do.
TEST(CircuitBreakerTest, TransitionsOfManyThreadsFormOneChain) {
  BreakerPolicy policy;
  policy.open_for = Milliseconds(1);
  policy.max_open_for = Milliseconds(2);
  CircuitBreaker breaker(policy);
  std::atomic<int64_t> micros{0};
  std::atomic<int> arrivals[3] = {};
  std::atomic<int> departures[3] = {};
  auto report = [&](const std::optional<CircuitBreaker::Transition>& change) {
    if (!change) return;
    departures[static_cast<int>(change->from)].fetch_add(1);
    arrivals[static_cast<int>(change->to)].fetch_add(1);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5000; ++i) {
        const absl::Time now =
            kStart + absl::Microseconds(micros.fetch_add(10));
        auto admission = breaker.AdmitFirst(now);
        report(admission.transition);
        const int choice = (i * 7 + t) % 5;
        if (choice == 0) continue;  // dropped
        report(admission.permit.Settle(
            choice < 4 ? Result::kFailure : Result::kSuccess, now, kMiddle));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  arrivals[static_cast<int>(BreakerState::kClosed)].fetch_add(1);  // the start
  for (BreakerState state :
       {BreakerState::kClosed, BreakerState::kOpen, BreakerState::kHalfOpen}) {
    const int index = static_cast<int>(state);
    EXPECT_EQ(arrivals[index].load() - departures[index].load(),
              breaker.state() == state ? 1 : 0)
        << BreakerStateName(state);
  }
  EXPECT_GT(arrivals[static_cast<int>(BreakerState::kHalfOpen)].load(), 10);
}

}  // namespace
}  // namespace retry_guard
