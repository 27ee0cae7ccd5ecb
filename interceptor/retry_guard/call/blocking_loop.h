// The attempts of a unary call whose caller is blocked anyway: they and the
// waits between them happen on the caller's own thread, so that a call costs no
// hop to another one. Cancellation alone comes from elsewhere.

#ifndef RETRY_GUARD_CALL_BLOCKING_LOOP_H_
#define RETRY_GUARD_CALL_BLOCKING_LOOP_H_

#include <grpcpp/impl/channel_interface.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/interceptor.h>

#include <memory>

#include "absl/time/time.h"
#include "retry_guard/call/call_core.h"
#include "retry_guard/call/delivery.h"
#include "retry_guard/call/interruption.h"
#include "retry_guard/call/road.h"
#include "retry_guard/call/unary_attempt.h"

namespace retry_guard::internal {

// What the roads have in common that run attempts so.
class BlockingLoop : public Road,
                     public std::enable_shared_from_this<BlockingLoop> {
 public:
  void OnCancel() override { interruption_.Cancel(); }

 protected:
  explicit BlockingLoop(std::shared_ptr<CallCore> core)
      : core_(std::move(core)) {}

  // Into the plan. The caller's message stays as it is while its thread is
  // here: an attempt sends the message itself, which interceptors after ours
  // can then look at.
  void TakeRequest(grpc::experimental::InterceptorBatchMethods* batch);
  void TakeTarget(grpc::experimental::InterceptorBatchMethods* batch);

  // The next attempt has its permission. `plan_` is complete.
  Answer Run();

  // For a retry that was decided: waits, asks for permission, goes on.
  Answer RetryAt(absl::Time when);

  const std::shared_ptr<CallCore> core_;

  UnaryPlan plan_;

 private:
  void Wait(absl::Time until);

  // The plan points at these.
  std::unique_ptr<grpc::ChannelInterface> below_;
  grpc::ByteBuffer request_;
  Interruption interruption_;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_BLOCKING_LOOP_H_
