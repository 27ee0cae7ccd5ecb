#include "retry_guard/call/blocking_attempts.h"

#include <algorithm>
#include <utility>

#include "absl/synchronization/notification.h"
#include "retry_guard/call/parent_watch.h"

namespace retry_guard::internal {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(1);

void Wait(const std::shared_ptr<CallCore>& core,
          const std::shared_ptr<Interruption>& interruption,
          const UnaryPlan& plan, absl::Time until) {
  const auto over = std::make_shared<absl::Notification>();
  const uint64_t wait = interruption->BeginWait();
  const std::shared_ptr<ParentWatch> watch =
      ParentWatch::Start(core, interruption, *plan.target.method);
  Clock& clock = core->channel().clock();
  const auto timer =
      clock.StartTimer(until, [over](bool /*fired*/) { over->Notify(); });
  interruption->SetTimer(wait, timer);
  // Normally the timer ends the wait. This may be the very thread, though, that
  // gRPC would run it on: a callback of the application's that makes a blocking
  // call.
  while (!over->WaitForNotificationWithTimeout(
      std::min(kLookEvery, until - clock.Now()))) {
    if (clock.Now() >= until || core->cancelled()) break;
  }
  timer->Cancel();
  if (watch != nullptr) watch->Stop();
}

}  // namespace

Answer RunBlockingAttempts(const std::shared_ptr<CallCore>& core,
                           const std::shared_ptr<Interruption>& interruption,
                           const UnaryPlan& plan,
                           std::optional<absl::Time> wait_until) {
  for (;;) {
    if (wait_until.has_value()) {
      Wait(core, interruption, plan, *wait_until);
      if (std::optional<KeptAnswer> refusal = core->BeforeAttempt()) {
        return Answer::FromKept(*std::move(refusal));
      }
    }
    auto attempt = UnaryAttempt::Create(plan.reply.kind);
    core->FillContext(&attempt->context());
    interruption->BeginAttempt(attempt);
    attempt->RunBlocking(plan);
    const CallCore::Next next =
        core->AfterAttempt({attempt->status(), attempt->context()});
    if (!next.retry) {
      grpc::Status status = core->FinalStatus(attempt->status());
      const bool got_message = attempt->got_message();
      return Answer::FromAttempt(std::move(attempt), std::move(status),
                                 got_message);
    }
    if (attempt->touched_reply()) plan.reply.Clear();
    wait_until = next.at;
  }
}

}  // namespace retry_guard::internal
