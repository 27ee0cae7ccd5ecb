// Notices, while a call waits between two attempts, that the inbound call that
// it was made for is over.
//
// An attempt in flight ends with its parent by itself: core propagates
// cancellation and deadline. During a backoff there is no attempt. So a call is
// kept that is never sent: it has the same parent, waits for nothing but its
// status, and no interceptor sees it.

#ifndef RETRY_GUARD_CALL_PARENT_WATCH_H_
#define RETRY_GUARD_CALL_PARENT_WATCH_H_

#include <grpcpp/client_context.h>
#include <grpcpp/impl/channel_interface.h>
#include <grpcpp/impl/rpc_method.h>

#include <memory>

#include "absl/functional/any_invocable.h"

namespace retry_guard::internal {

// Runs `on_end` at most once, on a thread of gRPC's, with the status that the
// parent's end gave the watch: CANCELLED, or DEADLINE_EXCEEDED. Not after Stop
// has returned... unless it was running already: Stop does not wait.
class ParentWatch {
 public:
  using OnEnd = absl::AnyInvocable<void(grpc::StatusCode)>;

  // Null if `caller` has no parent, or the channel has no completion queue for
  // callbacks. `method` must outlive the watch's call, Stop or not: it belongs
  // to the channel's state.
  static std::shared_ptr<ParentWatch> Start(
      const grpc::ClientContext& caller, grpc::ChannelInterface* channel,
      const grpc::internal::RpcMethod& method, OnEnd on_end);

  virtual ~ParentWatch() = default;

  virtual void Stop() = 0;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_PARENT_WATCH_H_
