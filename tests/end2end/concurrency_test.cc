// Many calls at once, in every state, with everything around them changing.

#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

constexpr int kThreads = 8;
constexpr int kCallsPerThread = 30;

std::string TextOf(int thread, int call) {
  return absl::StrCat("thread ", thread, " call ", call);
}

class ConcurrencyTest : public EndToEndTest {
 protected:
  static Policy Generous() {
    return Policy(4).NoBreaker().Budget(
        "\"ratio\": 1, \"minRetries\": 100000, \"window\": \"1000s\"");
  }

  // Runs `work` on each of a few threads.
  static void OnThreads(const std::function<void(int thread)>& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&work, i] { work(i); });
    }
    for (std::thread& thread : threads) thread.join();
  }
};
RETRY_GUARD_IN_EVERY_STYLE(ConcurrencyTest);

// Call n fails n % 4 times; with 4 attempts all succeed, each with its reply.
TEST_P(ConcurrencyTest, CallsDoNotMixUp) {
  MakeChannel(Generous());
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int call = 0; call < kCallsPerThread; ++call) {
      std::vector<Reaction> script(call % 4, Unavailable());
      script.push_back(Succeed());
      server_.SetScriptFor(TextOf(thread, call), script);
    }
  }
  OnThreads([&](int thread) {
    for (int call = 0; call < kCallsPerThread; ++call) {
      const std::string text = TextOf(thread, call);
      const CallResult result = CallText(text);
      EXPECT_TRUE(result.status.ok()) << result.status.error_message();
      EXPECT_EQ(result.text, text);
    }
  });
  const GuardSnapshot snapshot = Snapshot();
  int64_t attempts = 0;
  std::array<int64_t, 4> successes = {};
  for (int call = 0; call < kCallsPerThread; ++call) {
    attempts += kThreads * (call % 4 + 1);
    successes[call % 4] += kThreads;
  }
  EXPECT_EQ(snapshot.calls, kThreads * kCallsPerThread);
  EXPECT_EQ(snapshot.attempts, attempts);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(snapshot.attempts_to_success[i + 1], successes[i]);
  }
  EXPECT_EQ(server_.calls(), attempts);
}

TEST_P(ConcurrencyTest, PoliciesSwitchAndSnapshotsMayChangeMeanwhile) {
  MakeChannelByHand(Generous());
  std::atomic<bool> stop{false};
  std::thread meddler([&] {
    for (int i = 0; !stop; ++i) {
      EXPECT_TRUE(
          factory_
              ->UpdateServiceConfig(
                  Generous()
                      .Guard(absl::StrCat("\"maxAttempts\": ", 2 + i % 3))
                      .Json())
              .ok());
      options_.guard->SetRetriesEnabled(i % 2 == 0);
      const GuardSnapshot snapshot = Snapshot();
      EXPECT_GE(snapshot.attempts, 0);
      std::this_thread::yield();
    }
  });
  server_.SetScript({Unavailable()});
  OnThreads([&](int thread) {
    for (int call = 0; call < kCallsPerThread; ++call) {
      EXPECT_EQ(CallText(TextOf(thread, call)).status.error_code(),
                grpc::StatusCode::UNAVAILABLE);
    }
  });
  stop = true;
  meddler.join();
  const GuardSnapshot snapshot = Snapshot();
  EXPECT_EQ(snapshot.calls, kThreads * kCallsPerThread);
  EXPECT_EQ(snapshot.attempts, server_.calls());
  int64_t ends = 0;
  for (const auto& [reason, count] : snapshot.refusals) ends += count;
  EXPECT_EQ(ends, snapshot.calls);
}

// An open breaker, probes and failures of many calls at once.
TEST_P(ConcurrencyTest, ABreakerThatOpensAndClosesLosesNoCall) {
  MakeChannel(Policy(3)
                  .Budget("\"minRetries\": 100000")
                  .Breaker(R"("failureRate": 0, "consecutiveFailures": 3,
                              "openFor": "0.001s", "maxOpenFor": "0.002s")"));
  std::vector<Reaction> script;
  for (int i = 0; i < 400; ++i) {
    script.push_back(i % 10 < 6 ? Unavailable() : Succeed());
  }
  server_.SetScript(script);
  std::atomic<int> ok{0};
  std::atomic<int> failed{0};
  OnThreads([&](int thread) {
    for (int call = 0; call < kCallsPerThread; ++call) {
      const grpc::Status status = CallText(TextOf(thread, call)).status;
      ++(status.ok() ? ok : failed);
    }
  });
  EXPECT_EQ(ok + failed, kThreads * kCallsPerThread);
  // Nothing is stuck: once the server is well, so are the calls.
  server_.SetScript({Succeed()});
  while (!CallUnary().status.ok()) {
  }
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
}

}  // namespace
}  // namespace retry_guard::end2end
