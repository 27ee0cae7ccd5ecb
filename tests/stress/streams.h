// Streams in one direction, as a blocking program would use them; those in both
// are in tests/end2end/stream_styles.h.

#ifndef RETRY_GUARD_TESTS_STRESS_STREAMS_H_
#define RETRY_GUARD_TESTS_STRESS_STREAMS_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "tests/end2end/stream_styles.h"

namespace retry_guard::stress {

// Starts EchoService.ServerStream: `request` is sent at once, and there is
// nothing to write. In the styles kSync, kReactor and kQueue.
std::unique_ptr<end2end::Stream> StartServerStream(
    end2end::Style style, const std::shared_ptr<grpc::Channel>& channel,
    grpc::ClientContext* context, const std::string& request);

// Starts EchoService.ClientStream: the one reply can be read, once, after
// Finish; "" if there is none.
std::unique_ptr<end2end::Stream> StartClientStream(
    end2end::Style style, const std::shared_ptr<grpc::Channel>& channel,
    grpc::ClientContext* context, bool corked);

}  // namespace retry_guard::stress

#endif  // RETRY_GUARD_TESTS_STRESS_STREAMS_H_
