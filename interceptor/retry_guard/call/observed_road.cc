#include <grpc/grpc.h>

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "retry_guard/call/road.h"
#include "retry_guard/policy/clock.h"
#include "retry_guard/policy/mutex.h"

namespace retry_guard::internal {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

// The call that the application made is itself the only attempt; breaker,
// budget, counters and observers learn how it ended. A stream has succeeded as
// soon as it commits.
class ObservedRoad final : public Road,
                           public std::enable_shared_from_this<ObservedRoad> {
 public:
  explicit ObservedRoad(std::shared_ptr<CallCore> core)
      : core_(std::move(core)) {}

  // A stream that is dropped ends when nobody holds its call any more: the
  // timer must not.
  ~ObservedRoad() override { CancelDeadline(); }

  void OnStart(InterceptorBatchMethods* batch) override {
    StartDeadline();
    batch->Proceed();
  }

  void OnBatch(InterceptorBatchMethods* batch) override {
    const auto self = shared_from_this();  // Proceed may end the caller
    if (Has(batch, InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      // Has gRPC make its map of them now: when the status comes, on another
      // thread, the application may be reading it.
      batch->GetRecvInitialMetadata();
      MutexLock lock(mu_);
      headers_received_ = true;
    }
    if (core_->streaming() && Commits(batch)) ServerAnswers();
    if (!Has(batch, InterceptionHookPoints::POST_RECV_STATUS)) {
      batch->Proceed();
    } else if (BeginEnd(batch)) {
      End(batch);
    }
  }

  // The call cancels itself.
  void OnCancel() override {}

  void OnDropped() override {
    {
      MutexLock lock(mu_);
      if (ended_) return;
    }
    core_->Abandon();
  }

 private:
  static bool Has(InterceptorBatchMethods* batch, InterceptionHookPoints what) {
    return batch->QueryInterceptionHookPoint(what);
  }

  // The call was made with the deadline of its context; a tighter one, of the
  // config or of the inbound call, has to be kept from outside. (Not that of an
  // attempt of a stream: when it commits is not seen in time.)
  void StartDeadline() {
    const absl::Time when = core_->deadline_unknown_to_core();
    if (when == absl::InfiniteFuture()) return;
    grpc_call* const call = core_->caller()->c_call();
    grpc_call_ref(call);
    deadline_ = core_->channel().clock().StartTimer(when, [call](bool fired) {
      if (fired) {
        grpc_call_cancel_with_status(call, GRPC_STATUS_DEADLINE_EXCEEDED,
                                     "Deadline Exceeded", nullptr);
      }
      grpc_call_unref(call);
    });
  }
  void CancelDeadline() {
    if (deadline_ != nullptr) deadline_->Cancel();
  }

  // Something of the server's that is not its status. A batch that asks for
  // headers comes back even if there are none: only what is in them tells.
  static bool Commits(InterceptorBatchMethods* batch) {
    if (Has(batch, InterceptionHookPoints::POST_RECV_MESSAGE) &&
        batch->GetRecvMessage() != nullptr) {
      return true;
    }
    return Has(batch, InterceptionHookPoints::POST_RECV_INITIAL_METADATA) &&
           !batch->GetRecvInitialMetadata()->empty();
  }

  // ---- Headers, a message and the status may come on three threads at once,
  // and the core is for one: whoever tells it of the answer tells it of the
  // end, too, if that comes meanwhile.

  void ServerAnswers() {
    {
      MutexLock lock(mu_);
      if (answers_ || ended_) return;
      answers_ = telling_ = true;
    }
    core_->ServerAnswers();
    InterceptorBatchMethods* last = nullptr;
    {
      MutexLock lock(mu_);
      telling_ = false;
      last = last_;
    }
    if (last != nullptr) End(last);
  }

  bool BeginEnd(InterceptorBatchMethods* batch) {
    MutexLock lock(mu_);
    ended_ = true;
    if (telling_) last_ = batch;
    return !telling_;
  }

  void End(InterceptorBatchMethods* batch) {
    CancelDeadline();
    CallCore::Ended ended{*batch->GetRecvStatus(), *core_->caller()};
    {
      MutexLock lock(mu_);
      ended.headers_received = headers_received_;
      ended.committed = answers_;
    }
    core_->AfterAttempt(ended);
    batch->Proceed();
  }

  const std::shared_ptr<CallCore> core_;
  std::shared_ptr<Clock::Timer> deadline_;  // set before the call goes out

  Mutex mu_;
  bool headers_received_ ABSL_GUARDED_BY(mu_) = false;
  bool answers_ ABSL_GUARDED_BY(mu_) = false;
  bool telling_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  InterceptorBatchMethods* last_ ABSL_GUARDED_BY(mu_) = nullptr;
};

}  // namespace

std::shared_ptr<Road> MakeObservedRoad(std::shared_ptr<CallCore> core) {
  return std::make_shared<ObservedRoad>(std::move(core));
}

}  // namespace retry_guard::internal
