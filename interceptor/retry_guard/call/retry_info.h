// google.rpc.RetryInfo in a status, for clients that read it there.

#ifndef RETRY_GUARD_CALL_RETRY_INFO_H_
#define RETRY_GUARD_CALL_RETRY_INFO_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/time/time.h"

namespace retry_guard::internal {

// A status whose details are a google.rpc.Status with one RetryInfo.
grpc::Status WithRetryInfo(grpc::StatusCode code, const std::string& message,
                           absl::Duration delay);

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_RETRY_INFO_H_
