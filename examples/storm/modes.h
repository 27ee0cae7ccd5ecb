// The four ways to call the backend.

#ifndef EXAMPLES_STORM_MODES_H_
#define EXAMPLES_STORM_MODES_H_

#include <string>
#include <string_view>
#include <vector>

#include "load.h"

namespace storm {

// "no_retry", "naive", "grpc_builtin", "retry_guard", in the order of the run.
const std::vector<std::string_view>& ModeNames();

// A connected client to `address` that calls in the way of that mode. Deadline,
// number of attempts and reconnection are the same in all modes. Throws on an
// unknown mode, or when the backend cannot be reached.
Send MakeSender(std::string_view mode, const std::string& address);

}  // namespace storm

#endif  // EXAMPLES_STORM_MODES_H_
