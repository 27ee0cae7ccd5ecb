// The attempts of a unary call that nobody waits for: they and the waits
// between them follow each other on threads of gRPC's, one at a time. A call in
// backoff is this object and a timer; no thread.

#ifndef RETRY_GUARD_CALL_ATTEMPT_LOOP_H_
#define RETRY_GUARD_CALL_ATTEMPT_LOOP_H_

#include <grpcpp/impl/channel_interface.h>
#include <grpcpp/support/interceptor.h>

#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "retry_guard/call/call_core.h"
#include "retry_guard/call/delivery.h"
#include "retry_guard/call/interruption.h"
#include "retry_guard/call/parent_watch.h"
#include "retry_guard/call/road.h"
#include "retry_guard/call/unary_attempt.h"

namespace retry_guard::internal {

// What the roads have in common that run attempts so. Those that derive from it
// know where an answer goes.
class AttemptLoop : public Road,
                    public UnaryListener,
                    public std::enable_shared_from_this<AttemptLoop> {
 public:
  void OnCancel() override { interruption_.Cancel(); }
  void OnHeaders(UnaryAttempt& /*attempt*/) override {}
  void OnDone(UnaryAttempt& attempt) override;

 protected:
  AttemptLoop(std::shared_ptr<CallCore> core, bool report_headers)
      : core_(std::move(core)), report_headers_(report_headers) {}

  // Into the plan.
  void TakeTarget(grpc::experimental::InterceptorBatchMethods* batch);

  // The first attempt has its permission. `plan_` is complete.
  void StartFirstAttempt();

  // For a retry that was decided: waits, asks for permission, goes on.
  void RetryAt(absl::Time when);

  // The application drops the call, which has not ended, and nobody is between
  // BeginUse and EndUse, nor will be.
  void Abandon();

  // For who looks at it while this lives.
  std::shared_ptr<Interruption> interruption() {
    return {shared_from_this(), &interruption_};
  }

  // Something of the attempt that has just ended has reached the caller.
  virtual bool committed() = 0;

  // The end of the loop; comes once, and ends the use that has led to it: from
  // now on nothing of the application's is needed but the batches that wait.
  virtual void OnAnswer(Answer answer) = 0;

  const std::shared_ptr<CallCore> core_;

  UnaryPlan plan_;

 private:
  // For a call that may be dropped before it has ended: the core, the caller's
  // context and the channel may be used only between BeginUse, which is false
  // once they are gone, and EndUse or OnAnswer.
  virtual bool BeginUse() { return true; }
  virtual void EndUse() {}

  void StartAttempt();
  void WaitOver();

  // The plan points at it.
  std::unique_ptr<grpc::ChannelInterface> below_;

  const bool report_headers_;
  Interruption interruption_;
  // Of whoever has the call's next step: an attempt's end or a wait's.
  std::shared_ptr<UnaryAttempt> attempt_;
  std::shared_ptr<ParentWatch> watch_;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_ATTEMPT_LOOP_H_
