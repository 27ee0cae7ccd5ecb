// A first attempt that is the application's own call.

#ifndef RETRY_GUARD_CALL_OWN_ATTEMPT_H_
#define RETRY_GUARD_CALL_OWN_ATTEMPT_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/interceptor.h>

#include "retry_guard/call/call_core.h"
#include "retry_guard/call/codec.h"
#include "retry_guard/call/delivery.h"
#include "retry_guard/call/unary_ops.h"

namespace retry_guard::internal {

// It goes out as it is, so that a call that goes well costs no second one, and
// its peer and all that core knows of it are real. Only if it is to be repeated
// its end is held back, to be overwritten by what further attempts bring.
// Belongs to its road.
class OwnAttempt {
 public:
  using Batch = grpc::experimental::InterceptorBatchMethods*;

  // The operations of the call that `start` starts, if it can be one: all of it
  // is in that batch, and it carries all that the attempt needs. Else empty.
  static UnaryOps OpsOf(const CallCore& core, Batch start);

  OwnAttempt(CallCore& core, const UnaryOps& ops) : core_(core), ops_(ops) {}

  // Where its reply goes is shown now: of a failed call no more.
  void Start(Batch batch);
  const Reply& reply() const { return reply_; }

  // It has ended. `seen_late`: nobody may have looked for a while.
  CallCore::Next End(Batch batch, bool seen_late);

  // Makes `answer`, which must outlive the caller's context, that of `batch`.
  void Overwrite(Batch batch, const Answer& answer) const;

 private:
  CallCore& core_;
  Reply reply_;
  const UnaryOps ops_;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_OWN_ATTEMPT_H_
