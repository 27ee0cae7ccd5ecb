// One call of any shape, in every style that gRPC C++ has for it, as a blocking
// program would use it.

#ifndef RETRY_GUARD_TESTS_END2END_STREAM_STYLES_H_
#define RETRY_GUARD_TESTS_END2END_STREAM_STYLES_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/end2end/call_styles.h"

namespace retry_guard::end2end {

enum class Shape { kUnary, kServerStream, kClientStream, kBidi };

inline bool ClientStreams(Shape shape) {
  return shape == Shape::kClientStream || shape == Shape::kBidi;
}
inline bool ServerStreams(Shape shape) {
  return shape == Shape::kServerStream || shape == Shape::kBidi;
}

// A shape in a style that there is for it.
struct Kind {
  Shape shape;
  Style style;
};

// Of a unary call that is all one batch, the application's own call is the
// first attempt too.
inline bool IsItsOwnFirstAttempt(const Kind& kind) {
  return kind.shape == Shape::kUnary && !HeadersCommit(kind.style);
}

// Every kind of stream, and of call.
std::vector<Kind> StreamKinds();
std::vector<Kind> AllKinds();
std::string KindName(const Kind& kind);
std::ostream& operator<<(std::ostream& os, const Kind& kind);
// "Bidi" of EchoService, and its like.
std::string MethodOf(Shape shape);

// The styles of call_styles.h that streams have.
std::vector<Style> StreamStyles();

// Each function blocks until its operation is done; for a minute at most, then
// the program ends: a stream that hangs is the worst of results. One thread may
// write while another one reads. A stream has only what its shape has.
class Stream {
 public:
  virtual ~Stream() = default;
  // These return what gRPC says of them.
  virtual bool Write(const std::string& text) = 0;
  virtual bool WriteLast(const std::string& text) = 0;
  virtual bool WritesDone() = 0;
  // Before the first Read. True where gRPC does not say.
  virtual bool AwaitHeaders() = 0;
  // A message; false at the end: then the text is what the reply object holds
  // all the same.
  virtual bool Read(std::string* text) = 0;
  virtual grpc::Status Finish() = 0;
  // That of a client stream, once it has finished.
  virtual std::string reply() const { return ""; }
};

struct StreamOptions {
  bool corked = false;         // nothing is sent before the first Write
  std::string request = "hi";  // of a server stream
};

// Starts the method of EchoService that is of this shape, which is not unary.
std::unique_ptr<Stream> StartStream(
    const Kind& kind, const std::shared_ptr<grpc::Channel>& channel,
    grpc::ClientContext* context, const StreamOptions& options = {});

// A bidirectional one.
inline std::unique_ptr<Stream> StartStream(
    Style style, const std::shared_ptr<grpc::Channel>& channel,
    grpc::ClientContext* context, bool corked = false) {
  StreamOptions options;
  options.corked = corked;
  return StartStream({Shape::kBidi, style}, channel, context, options);
}

// Sends `text`, all that there is to send, and receives all: a whole call of
// any shape. The text is that of all replies.
CallResult CallWhole(const Kind& kind,
                     const std::shared_ptr<grpc::Channel>& channel,
                     grpc::ClientContext* context,
                     const std::string& text = "hi");

}  // namespace retry_guard::end2end

#endif  // RETRY_GUARD_TESTS_END2END_STREAM_STYLES_H_
