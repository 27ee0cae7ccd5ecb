// The application: makes one call as its plan says.

#ifndef RETRY_GUARD_TESTS_STRESS_CLIENT_H_
#define RETRY_GUARD_TESTS_STRESS_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "tests/stress/ledger.h"

namespace retry_guard::stress {

// Blocks until the call has ended. `inbound` is that of the server that makes
// it, or null. The channel is dropped as soon as the call runs.
Result MakeCall(Record& record, std::shared_ptr<grpc::Channel> channel,
                grpc::ServerContext* inbound);

}  // namespace retry_guard::stress

#endif  // RETRY_GUARD_TESTS_STRESS_CLIENT_H_
