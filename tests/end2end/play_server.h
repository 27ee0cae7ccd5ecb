// A real server on loopback without a schema: it plays a script, step by step,
// with calls of every shape, and remembers what it saw.

#ifndef RETRY_GUARD_TESTS_END2END_PLAY_SERVER_H_
#define RETRY_GUARD_TESTS_END2END_PLAY_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/end2end/scripted_server.h"

namespace retry_guard::end2end {

// What the server does with one call:
//
//   Play().Read(1).Headers().Reply("one").ReadToEnd().Ends(status)
class Play {
 public:
  struct Step {
    enum class Kind {
      kRead,
      kReadToEnd,
      kEcho,
      kHeaders,
      kReply,
      kPause,
      kHold,
    };
    Kind kind;
    int count = 0;
    std::string text;
  };

  Play& Read(int count) { return Add({Step::Kind::kRead, count, ""}); }
  Play& ReadToEnd() { return Add({Step::Kind::kReadToEnd, 0, ""}); }
  // Answers each message with itself, to the end.
  Play& Echo() { return Add({Step::Kind::kEcho, 0, ""}); }
  Play& Headers() { return Add({Step::Kind::kHeaders, 0, ""}); }
  Play& Reply(const std::string& text) {
    return Add({Step::Kind::kReply, 0, text});
  }
  // Until PlayServer::Release is called, or the client is gone.
  Play& Pause() { return Add({Step::Kind::kPause, 0, ""}); }
  // Until the client is gone.
  Play& Hold() { return Add({Step::Kind::kHold, 0, ""}); }
  Play& Initial(const std::string& key, const std::string& value) {
    initial_.emplace(key, value);
    return *this;
  }
  Play& Trailing(const std::string& key, const std::string& value) {
    trailing_.emplace(key, value);
    return *this;
  }
  Play& Ends(grpc::Status status) {
    status_ = std::move(status);
    return *this;
  }

  const std::vector<Step>& steps() const { return steps_; }
  const std::multimap<std::string, std::string>& initial() const {
    return initial_;
  }
  const std::multimap<std::string, std::string>& trailing() const {
    return trailing_;
  }
  const grpc::Status& status() const { return status_; }

 private:
  Play& Add(Step step) {
    steps_.push_back(std::move(step));
    return *this;
  }

  std::vector<Step> steps_;
  std::multimap<std::string, std::string> initial_;
  std::multimap<std::string, std::string> trailing_;
  grpc::Status status_;
};

// Fails at once, with trailers only.
inline Play Down(const std::string& message = "down") {
  return Play().Ends({grpc::StatusCode::UNAVAILABLE, message});
}
// Answers each message with itself; OK.
inline Play Echo() { return Play().Echo(); }
// Reads what there is, then waits for the client to go. Says nothing.
inline Play Silent() { return Play().Read(1).Hold(); }

struct PlayedCall : SeenCall {
  std::vector<std::string> messages;  // the texts that were read
  int written = 0;                    // replies that gRPC has taken
  bool half_closed = false;           // seen by a Read after the last message
  bool ended = false;
  bool cancelled = false;
};

class PlayServer {
 public:
  // Plays script[n] with call number n (from 0), and its last entry with later
  // ones.
  explicit PlayServer(std::vector<Play> script = {Echo()},
                      const std::shared_ptr<grpc::ServerCredentials>&
                          credentials = grpc::InsecureServerCredentials(),
                      int port = 0);
  ~PlayServer();

  std::string address() const;

  // Starts anew, with this script, once all calls have ended; those that were
  // seen are forgotten.
  void SetScript(std::vector<Play> script);

  // Lets every call that pauses go on, and those to come.
  void Release();

  std::vector<PlayedCall> seen() const;
  int calls() const { return static_cast<int>(seen().size()); }

  // Blocks until `count` calls have arrived; false after a long time.
  bool AwaitCalls(int count) const;
  // Until a message of call number `number` (from 0) has been read.
  bool AwaitMessage(int number) const;
  // Until `count` were cancelled by their client.
  bool AwaitCancelled(int count) const;
  // Until all that have arrived have ended.
  bool AwaitEnded() const;

 private:
  class Reactor;
  class Service;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace retry_guard::end2end

#endif  // RETRY_GUARD_TESTS_END2END_PLAY_SERVER_H_
