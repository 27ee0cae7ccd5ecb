// Whether the call at hand was made through the blocking API.

#ifndef RETRY_GUARD_CALL_SYNC_CALLER_H_
#define RETRY_GUARD_CALL_SYNC_CALLER_H_

#include <grpcpp/support/interceptor.h>

namespace retry_guard::internal {

// The blocking API keeps its operations, and `methods` with them, in a frame of
// the caller's, right above us on this thread's own stack; the callback and
// completion-queue APIs keep them in the call's arena. Where the bounds of the
// stack cannot be had, or on a fiber, the answer is no, which is always right:
// the asynchronous roads serve a blocking caller too.
bool CalledFromBlockingApi(
    const grpc::experimental::InterceptorBatchMethods* methods);

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_SYNC_CALLER_H_
