// A program that makes one call, and everything that it can see of it: to be
// compared between two channels.

#ifndef RETRY_GUARD_TESTS_END2END_PROGRAM_H_
#define RETRY_GUARD_TESTS_END2END_PROGRAM_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/end2end/play_server.h"
#include "tests/end2end/stream_styles.h"

namespace retry_guard::end2end {

// What is seen, in the order in which it is: "Read" is "one".
struct Sight {
  std::string what;
  std::string value;
};
inline bool operator==(const Sight& a, const Sight& b) {
  return a.what == b.what && a.value == b.value;
}
std::ostream& operator<<(std::ostream& os, const Sight& sight);

// What the application does, step by step; it finishes the call at the end.
// Steps that a shape does not have are left out. The first message is the
// request where there is one only.
class Program {
 public:
  using Setup = std::function<void(grpc::ClientContext*)>;

  Program& Write(const std::string& text) {
    return Add({Step::Kind::kWrite, text});
  }
  Program& WriteLast(const std::string& text) {
    return Add({Step::Kind::kWriteLast, text});
  }
  Program& WritesDone() { return Add({Step::Kind::kWritesDone, ""}); }
  Program& AwaitHeaders() { return Add({Step::Kind::kAwaitHeaders, ""}); }
  Program& Read() { return Add({Step::Kind::kRead, ""}); }
  Program& ReadToEnd() { return Add({Step::Kind::kReadToEnd, ""}); }
  // Until the server has read the first message of the call's last attempt.
  Program& AwaitServer() { return Add({Step::Kind::kAwaitServer, ""}); }
  Program& Cancel() { return Add({Step::Kind::kCancel, ""}); }

  // Before the call.
  Program& SetUp(Setup setup) {
    setup_ = std::move(setup);
    return *this;
  }
  Program& Corked() {
    corked_ = true;
    return *this;
  }

  bool awaits_server() const;

  // Runs it. `attempts`: those that the server will see.
  std::vector<Sight> Run(const Kind& kind,
                         const std::shared_ptr<grpc::Channel>& channel,
                         const PlayServer& server, int attempts) const;

 private:
  struct Step {
    enum class Kind {
      kWrite,
      kWriteLast,
      kWritesDone,
      kAwaitHeaders,
      kRead,
      kReadToEnd,
      kAwaitServer,
      kCancel,
    };
    Kind kind;
    std::string text;
  };
  Program& Add(Step step) {
    steps_.push_back(std::move(step));
    return *this;
  }
  std::string FirstMessage() const;
  class Runner;

  std::vector<Step> steps_;
  Setup setup_ = [](grpc::ClientContext*) {};
  bool corked_ = false;
};

// What the server saw of its last call, but for what retry_guard adds.
std::vector<Sight> LookAtServer(const PlayServer& server);

}  // namespace retry_guard::end2end

#endif  // RETRY_GUARD_TESTS_END2END_PROGRAM_H_
