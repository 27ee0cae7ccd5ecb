// Notices, while a call waits between two attempts, that the inbound call that
// it was made for is over.
//
// An attempt in flight ends with its parent by itself: core propagates
// cancellation and deadline. During a backoff there is no attempt. So a call is
// kept that is never sent: it has the same parent, waits for nothing but its
// status, and no interceptor sees it.

#ifndef RETRY_GUARD_CALL_PARENT_WATCH_H_
#define RETRY_GUARD_CALL_PARENT_WATCH_H_

#include <grpcpp/impl/rpc_method.h>

#include <memory>

#include "retry_guard/call/call_core.h"
#include "retry_guard/call/interruption.h"

namespace retry_guard::internal {

// Tells `core` how the parent has ended (CANCELLED, or DEADLINE_EXCEEDED) and
// cuts the wait short, at most once, on a thread of gRPC's. Not after Stop has
// returned... unless it was at it already: Stop does not wait, so the watch may
// outlive the call's road, and keeps what it needs.
class ParentWatch {
 public:
  // Null if the caller has no parent, or the channel has no completion queue
  // for callbacks. `method` must outlive the watch's call, Stop or not: it
  // belongs to the channel's state.
  static std::shared_ptr<ParentWatch> Start(
      std::shared_ptr<CallCore> core,
      std::shared_ptr<Interruption> interruption,
      const grpc::internal::RpcMethod& method);

  virtual ~ParentWatch() = default;

  virtual void Stop() = 0;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_PARENT_WATCH_H_
