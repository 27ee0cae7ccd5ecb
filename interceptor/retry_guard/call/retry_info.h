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

// `status` with the RetryInfo among its details, in place of one that is there.
// Details that are no google.rpc.Status stay as they are, without it.
grpc::Status WithRetryInfo(const grpc::Status& status, absl::Duration delay);

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_RETRY_INFO_H_
