// One bidirectional stream, in every style that gRPC C++ has, as a blocking
// program would use it.

#ifndef RETRY_GUARD_TESTS_END2END_STREAM_STYLES_H_
#define RETRY_GUARD_TESTS_END2END_STREAM_STYLES_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/end2end/call_styles.h"

namespace retry_guard::end2end {

// The styles of call_styles.h that streams have.
std::vector<Style> StreamStyles();

// Each function blocks until its operation is done; for a minute at most, then
// the program ends: a stream that hangs is the worst of results. One thread may
// write while another one reads.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual bool Write(const std::string& text) = 0;
  virtual void WritesDone() = 0;
  // A message; false at the end.
  virtual bool Read(std::string* text) = 0;
  virtual grpc::Status Finish() = 0;
};

// Starts EchoService.Bidi. `corked`: nothing is sent before the first Write.
std::unique_ptr<Stream> StartStream(
    Style style, const std::shared_ptr<grpc::Channel>& channel,
    grpc::ClientContext* context, bool corked = false);

}  // namespace retry_guard::end2end

#endif  // RETRY_GUARD_TESTS_END2END_STREAM_STYLES_H_
