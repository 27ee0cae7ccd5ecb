// The part of the library that has no transport, on plain threads: calls
// between their attempts, cancellations, deadlines, timers, reloads and the
// kill switch race each other, and the thread sanitizer sees every lock there
// is.

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_interceptor.h>
#include <grpcpp/support/interceptor.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "retry_guard/call/call_core.h"
#include "retry_guard/call/hijack_gate.h"
#include "retry_guard/call/interruption.h"
#include "retry_guard/interceptor.h"
#include "tests/stress/dice.h"
#include "tests/unit/call/blank_batch.h"

namespace retry_guard::stress {
struct Key {};
}  // namespace retry_guard::stress

namespace grpc::internal {

// Befriended by ClientContext, which alone can make a ClientRpcInfo; compare
// retry_guard/call/grpc_access.h.
template <>
class CallbackUnaryCallImpl<retry_guard::stress::Key,
                            retry_guard::stress::Key> {
 public:
  static experimental::ClientRpcInfo* MakeInfo(ClientContext* context,
                                               const char* method,
                                               ChannelInterface* channel) {
    return context->set_client_rpc_info(method, nullptr, RpcMethod::NORMAL_RPC,
                                        channel, {}, 0);
  }
};

}  // namespace grpc::internal

namespace retry_guard::stress {
namespace {

using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using internal::CallCore;
using internal::ChannelState;
using internal::Interruption;

constexpr char kMethod[] = "/retry_guard.testing.Nowhere/Call";

constexpr char kPolicy[] = R"json({
  "methodConfig": [{
    "name": [{}],
    "retryPolicy": {
      "maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.002s",
      "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]
    },
    "retryGuard": {"breaker": "OWN"}
  }],
  "retryGuard": {
    "budget": {"ratio": 0.5, "minRetries": 50, "window": "0.1s"},
    "breaker": {"failureRate": 0.7, "minRequests": 10, "window": "0.1s",
                "openFor": "0.005s", "maxOpenFor": "0.01s"}
  }
})json";

// Nothing is ever sent on it.
class NoChannel final : public grpc::ChannelInterface {
 public:
  grpc_connectivity_state GetState(bool /*try_to_connect*/) override {
    return GRPC_CHANNEL_IDLE;
  }

 private:
  grpc::internal::Call CreateCall(const grpc::internal::RpcMethod& /*method*/,
                                  grpc::ClientContext* /*context*/,
                                  grpc::CompletionQueue* /*cq*/) override {
    return {};
  }
  void PerformOpsOnCall(grpc::internal::CallOpSetInterface* /*ops*/,
                        grpc::internal::Call* /*call*/) override {}
  void* RegisterMethod(const char* /*method*/) override { return nullptr; }
  void NotifyOnStateChangeImpl(grpc_connectivity_state /*last*/,
                               gpr_timespec /*deadline*/,
                               grpc::CompletionQueue* /*cq*/,
                               void* /*tag*/) override {}
  bool WaitForStateChangeImpl(grpc_connectivity_state /*last*/,
                              gpr_timespec /*deadline*/) override {
    return false;
  }
};

// Timers on threads of its own: gRPC's would hand callbacks over unseen.
class ThreadClock final : public Clock {
 public:
  ThreadClock() {
    for (auto& thread : threads_) thread = std::thread([this] { Run(); });
  }
  ~ThreadClock() override {
    {
      std::lock_guard<std::mutex> lock(mu_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  absl::Time Now() const override { return absl::Now(); }
  absl::Time WallNow() const override { return absl::Now(); }

  std::shared_ptr<Timer> StartTimer(
      absl::Time when, absl::AnyInvocable<void(bool fired)> callback) override {
    auto timer = std::make_shared<OneTimer>(this, std::move(callback));
    Add(when, /*fired=*/true, timer);
    return timer;
  }

 private:
  struct OneTimer final : Timer {
    OneTimer(ThreadClock* clock, absl::AnyInvocable<void(bool)> callback)
        : clock(clock), callback(std::move(callback)) {}
    void Cancel() override {
      const auto self = weak.lock();
      clock->Add(absl::InfinitePast(), /*fired=*/false, self);
    }
    ThreadClock* const clock;
    std::weak_ptr<OneTimer> weak;
    std::atomic<bool> over{false};
    absl::AnyInvocable<void(bool)> callback;
  };
  struct Due {
    absl::Time when;
    bool fired;
    std::shared_ptr<OneTimer> timer;
    bool operator<(const Due& other) const { return when > other.when; }
  };

  void Add(absl::Time when, bool fired,
           const std::shared_ptr<OneTimer>& timer) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (timer->weak.expired()) timer->weak = timer;
      due_.push({when, fired, timer});
    }
    changed_.notify_one();
  }

  void Run() {
    std::unique_lock<std::mutex> lock(mu_);
    for (;;) {
      if (due_.empty()) {
        if (stopping_) return;
        changed_.wait(lock);
      } else if (const absl::Time when = due_.top().when; when > absl::Now()) {
        changed_.wait_until(lock, absl::ToChronoTime(when));
      } else {
        const Due due = due_.top();
        due_.pop();
        if (due.timer->over.exchange(true)) continue;
        lock.unlock();
        auto callback = std::move(due.timer->callback);
        callback(due.fired);
        lock.lock();
      }
    }
  }

  std::mutex mu_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::priority_queue<Due> due_;
  std::array<std::thread, 3> threads_;
};

class NoAttempt final : public internal::Attempt {};

// A road without a transport: what an attempt comes to is chance, and a timer
// tells it.
class RacingCall : public std::enable_shared_from_this<RacingCall> {
 public:
  RacingCall(std::shared_ptr<ChannelState> channel, NoChannel* below,
             uint64_t id)
      : dice_(1, id), channel_(std::move(channel)) {
    if (dice_.Percent(20)) {
      context_.set_deadline(std::chrono::system_clock::now() +
                            std::chrono::milliseconds(dice_.Between(0, 8)));
    }
    core_ = std::make_shared<CallCore>(
        channel_, grpc::internal::CallbackUnaryCallImpl<Key, Key>::MakeInfo(
                      &context_, kMethod, below));
  }

  void Start() {
    core_->Begin(&metadata_);
    Next();
  }

  // From any thread.
  void Cancel() {
    core_->SetCancelled();
    interruption_->Cancel();
  }
  void EndParent() {
    core_->SetParentEnded(grpc::StatusCode::CANCELLED);
    interruption_->EndWait();
  }

  void Await() {
    std::unique_lock<std::mutex> lock(mu_);
    while (answers_ == 0) over_.wait(lock);
  }
  int answers() {
    std::lock_guard<std::mutex> lock(mu_);
    return answers_;
  }

 private:
  void Next() {
    if (core_->BeforeAttempt().has_value()) return Answer();
    const auto attempt = std::make_shared<NoAttempt>();
    core_->FillContext(&attempt->context());
    interruption_->BeginAttempt(attempt);
    channel_->clock().StartTimer(
        absl::Now() + absl::Microseconds(dice_.Between(0, 300)),
        [self = shared_from_this(), attempt](bool) { self->Ended(*attempt); });
  }

  void Ended(const NoAttempt& attempt) {
    grpc::Status status;
    if (dice_.Percent(60)) status = {grpc::StatusCode::UNAVAILABLE, "down"};
    const CallCore::Next next =
        core_->AfterAttempt({status, attempt.context(),
                             /*headers_received=*/false});
    if (!next.retry) return Answer();
    const uint64_t wait = interruption_->BeginWait();
    const auto timer = channel_->clock().StartTimer(
        next.at, [self = shared_from_this()](bool) { self->Next(); });
    interruption_->SetTimer(wait, timer);
  }

  void Answer() {
    std::lock_guard<std::mutex> lock(mu_);
    ++answers_;
    over_.notify_all();
  }

  Dice dice_;
  const std::shared_ptr<ChannelState> channel_;
  grpc::ClientContext context_;
  internal::SendMetadata metadata_;
  std::shared_ptr<CallCore> core_;
  const std::shared_ptr<Interruption> interruption_ =
      std::make_shared<Interruption>();
  std::mutex mu_;
  std::condition_variable over_;
  int answers_ = 0;
};

TEST(CoreRaceTest, CallsCancelsDeadlinesTimersAndReloads) {
  constexpr int kThreads = 6;
  constexpr int kCalls = 400;  // of each thread
  const auto clock = std::make_shared<ThreadClock>();
  const std::shared_ptr<Guard> guard = Guard::Create();
  InterceptorOptions options;
  options.guard = guard;
  options.clock = clock;
  options.codec = MessageCodec::kByteBuffer;
  options.core_retries_off = true;
  const auto channel = std::make_shared<ChannelState>(options);
  ASSERT_TRUE(channel->SetExplicitConfig(kPolicy).ok());
  NoChannel below;

  // Some before anybody interferes: these are sure to be retried.
  constexpr int kFirst = 50;
  for (int i = 0; i < kFirst; ++i) {
    const auto call =
        std::make_shared<RacingCall>(channel, &below, kThreads * kCalls + i);
    call->Start();
    call->Await();
  }
  EXPECT_GT(guard->Snapshot().retries, 0);

  std::atomic<bool> stop{false};
  std::thread operators([&] {
    Dice dice(2, 0);
    while (!stop) {
      EXPECT_TRUE(
          channel->SetExplicitConfig(dice.Percent(80) ? kPolicy : "").ok());
      guard->SetRetriesEnabled(dice.Percent(80));
      EXPECT_GE(guard->Snapshot().calls, 0);
    }
  });
  std::vector<std::thread> callers;
  for (int thread = 0; thread < kThreads; ++thread) {
    callers.emplace_back([&, thread] {
      Dice dice(3, thread);
      for (int i = 0; i < kCalls; ++i) {
        const auto call =
            std::make_shared<RacingCall>(channel, &below, thread * kCalls + i);
        std::thread intruder;
        if (dice.Percent(40)) {
          const bool cancels = dice.Percent(60);
          const int spin = dice.Between(0, 2000);
          intruder = std::thread([call, cancels, spin] {
            for (volatile int turn = 0; turn < spin; turn = turn + 1) {
            }
            cancels ? call->Cancel() : call->EndParent();
          });
        }
        call->Start();
        call->Await();
        if (intruder.joinable()) intruder.join();
        EXPECT_EQ(call->answers(), 1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  stop = true;
  operators.join();

  const GuardSnapshot now = guard->Snapshot();
  int64_t ended = 0;
  for (const int64_t count : now.attempts_to_success) ended += count;
  for (const auto& [reason, count] : now.refusals) ended += count;
  EXPECT_EQ(ended, kFirst + kThreads * kCalls);
  EXPECT_EQ(now.retries, now.attempts - now.calls);
}

// Counts how often it is let go, where the thread sanitizer sees it.
class CountedBatch final : public internal::BlankBatch {
 public:
  void Proceed() override { ++proceeds; }
  void Hijack() override { ++hijacks; }

  std::atomic<int> proceeds{0};
  std::atomic<int> hijacks{0};
};

TEST(CoreRaceTest, BatchesThatComeDuringAHijackGoOnOnce) {
  for (int round = 0; round < 500; ++round) {
    internal::HijackGate gate;
    CountedBatch start;
    std::array<CountedBatch, 3> others;
    std::vector<std::thread> threads;
    for (CountedBatch& batch : others) {
      threads.emplace_back([&] { gate.Pass(&batch); });
    }
    gate.Hijack(&start);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(start.hijacks, 1);
    for (const CountedBatch& batch : others) EXPECT_EQ(batch.proceeds, 1);
  }
}

}  // namespace
}  // namespace retry_guard::stress
