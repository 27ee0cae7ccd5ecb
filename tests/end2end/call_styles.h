// One unary call, in every style that gRPC C++ has. A test is written once and
// runs over all of them.

#ifndef RETRY_GUARD_TESTS_END2END_CALL_STYLES_H_
#define RETRY_GUARD_TESTS_END2END_CALL_STYLES_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "retry_guard/testing/echo.grpc.pb.h"

namespace retry_guard::end2end {

enum class Style {
  kSync,
  kCallback,
  kReactor,
  kQueue,              // completion queue
  kQueueHeadersFirst,  // … and ReadInitialMetadata before Finish
  kGenericQueue,       // generic stubs, ByteBuffer messages
  kGenericCallback,
  kGenericReactor,
};

std::vector<Style> AllStyles();
// Those in which the caller may see response headers before the end, so that
// headers commit the call.
bool HeadersCommit(Style style);
bool IsGeneric(Style style);
// What a reply object holds before its call. (That of a generic stub is empty.)
inline constexpr char kUntouched[] = "untouched";
inline std::string UntouchedReply(Style style) {
  return IsGeneric(style) ? "" : kUntouched;
}
std::string StyleName(Style style);
std::ostream& operator<<(std::ostream& os, Style style);

// A call under way, on threads of its own if its style needs them. The context
// is the caller's; it may be cancelled from any thread.
class StartedCall {
 public:
  StartedCall(Style style, const std::shared_ptr<grpc::Channel>& channel,
              grpc::ClientContext* context, const std::string& text,
              const std::string& method = "Unary");
  ~StartedCall();

  // Blocks until the call has ended. Fails the test after `timeout`: a call
  // that hangs is the worst of results.
  const grpc::Status& Await(absl::Duration timeout = absl::Seconds(30));

  bool done() const;

  // Blocks until the caller is told of the response headers, in the styles in
  // which that may be before the end; false after a long time.
  bool AwaitHeaders() const;

  // What the reply object holds in the end.
  const std::string& text() const { return text_; }

  // While one lives, the application leaves its requests alone until their
  // calls have ended. Else it changes them as soon as gRPC lets it: where an
  // interceptor before ours holds a call back, its request is read later.
  class KeepRequests {
   public:
    KeepRequests();
    ~KeepRequests();
  };

  class Run;

 private:
  std::unique_ptr<Run> run_;
  grpc::Status status_;
  std::string text_;
};

// Start and Await in one.
struct CallResult {
  grpc::Status status;
  std::string text;
};
CallResult Call(Style style, const std::shared_ptr<grpc::Channel>& channel,
                grpc::ClientContext* context, const std::string& text = "hi",
                const std::string& method = "Unary");

}  // namespace retry_guard::end2end

#endif  // RETRY_GUARD_TESTS_END2END_CALL_STYLES_H_
