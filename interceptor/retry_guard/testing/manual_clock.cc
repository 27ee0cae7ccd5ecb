#include "retry_guard/testing/manual_clock.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "retry_guard/policy/mutex.h"

namespace retry_guard::testing {

// Shared with the timers, which may outlive the clock.
class ManualClock::State : public std::enable_shared_from_this<State> {
 public:
  class ManualTimer final : public Clock::Timer {
   public:
    ManualTimer(std::shared_ptr<State> state, absl::Time when,
                absl::AnyInvocable<void(bool fired)> callback)
        : state_(std::move(state)),
          when_(when),
          callback_(std::move(callback)) {}

    void Cancel() override { state_->Cancel(this); }

    absl::Time when() const { return when_; }
    void Run(bool fired) { std::exchange(callback_, nullptr)(fired); }

   private:
    const std::shared_ptr<State> state_;
    const absl::Time when_;
    absl::AnyInvocable<void(bool fired)> callback_;
  };

  explicit State(absl::Time start) : now_(start) {}

  void Start() {
    runner_ =
        std::thread([self = shared_from_this()] { self->RunCallbacks(); });
  }

  // Whoever still waits is let go: its call is ended, not leaked.
  void Stop() {
    {
      MutexLock lock(mu_);
      for (auto& timer : waiting_) due_.emplace_back(std::move(timer), false);
      waiting_.clear();
      stopping_ = true;
      changed_.NotifyAll();
    }
    if (runner_.get_id() == std::this_thread::get_id()) {
      // What a callback owned was the last to know the clock.
      runner_.detach();
    } else {
      runner_.join();
    }
  }

  absl::Time now() const {
    MutexLock lock(mu_);
    return now_;
  }

  std::shared_ptr<Timer> StartTimer(
      absl::Time when, absl::AnyInvocable<void(bool fired)> callback) {
    auto timer = std::make_shared<ManualTimer>(shared_from_this(), when,
                                               std::move(callback));
    MutexLock lock(mu_);
    changed_.NotifyAll();
    if (stopping_) {
      // Nobody moves the time any more.
      std::thread([timer] { timer->Run(false); }).detach();
    } else if (when <= now_) {
      due_.emplace_back(timer, true);
    } else {
      waiting_.push_back(timer);
    }
    return timer;
  }

  void Cancel(ManualTimer* timer) {
    MutexLock lock(mu_);
    const auto found =
        std::find_if(waiting_.begin(), waiting_.end(),
                     [timer](const auto& t) { return t.get() == timer; });
    if (found == waiting_.end()) return;
    due_.emplace_back(std::move(*found), false);
    waiting_.erase(found);
    changed_.NotifyAll();
  }

  void Advance(absl::Duration by) {
    MutexLock lock(mu_);
    now_ += by;
    std::stable_sort(
        waiting_.begin(), waiting_.end(),
        [](const auto& a, const auto& b) { return a->when() < b->when(); });
    auto end = waiting_.begin();
    while (end != waiting_.end() && (*end)->when() <= now_) {
      due_.emplace_back(std::move(*end), true);
      ++end;
    }
    waiting_.erase(waiting_.begin(), end);
    changed_.NotifyAll();
    while (!due_.empty() || running_) changed_.Wait(mu_);
  }

  int pending() const {
    MutexLock lock(mu_);
    return static_cast<int>(waiting_.size());
  }

  bool AwaitTimers(int count, absl::Duration timeout) const {
    MutexLock lock(mu_);
    return changed_.WaitFor(mu_, timeout,
                            [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
                              return static_cast<int>(waiting_.size()) >= count;
                            });
  }

  absl::Time next_timer() const {
    MutexLock lock(mu_);
    absl::Time next = absl::InfiniteFuture();
    for (const auto& timer : waiting_) next = std::min(next, timer->when());
    return next;
  }

 private:
  using Due = std::pair<std::shared_ptr<ManualTimer>, bool /*fired*/>;

  void RunCallbacks() {
    while (std::optional<Due> due = AwaitDue()) {
      due->first->Run(due->second);
      due.reset();
      MutexLock lock(mu_);
      running_ = false;
      changed_.NotifyAll();
    }
  }

  // Nothing once the clock has stopped.
  std::optional<Due> AwaitDue() {
    MutexLock lock(mu_);
    while (due_.empty() && !stopping_) changed_.Wait(mu_);
    if (due_.empty()) return std::nullopt;
    Due due = std::move(due_.front());
    due_.pop_front();
    running_ = true;
    return due;
  }

  mutable Mutex mu_;
  mutable CondVar changed_;
  absl::Time now_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool running_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::shared_ptr<ManualTimer>> waiting_ ABSL_GUARDED_BY(mu_);
  std::deque<Due> due_ ABSL_GUARDED_BY(mu_);
  std::thread runner_;
};

ManualClock::ManualClock(absl::Time start)
    : state_(std::make_shared<State>(start)) {
  state_->Start();
}

ManualClock::~ManualClock() { state_->Stop(); }

absl::Time ManualClock::Now() const { return state_->now(); }

std::shared_ptr<Clock::Timer> ManualClock::StartTimer(
    absl::Time when, absl::AnyInvocable<void(bool fired)> callback) {
  return state_->StartTimer(when, std::move(callback));
}

void ManualClock::Advance(absl::Duration by) { state_->Advance(by); }

int ManualClock::pending_timers() const { return state_->pending(); }

bool ManualClock::AwaitTimers(int count, absl::Duration timeout) const {
  return state_->AwaitTimers(count, timeout);
}

absl::Time ManualClock::next_timer() const { return state_->next_timer(); }

}  // namespace retry_guard::testing
