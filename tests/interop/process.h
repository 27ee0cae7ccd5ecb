// A foreign program as a test sees it: started, read, signalled, and gone with
// the test.

#ifndef RETRY_GUARD_TESTS_INTEROP_PROCESS_H_
#define RETRY_GUARD_TESTS_INTEROP_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace retry_guard::interop {

// Where `program` is: on the PATH, or where servers are, which is not on every
// user's. Nothing if it is not installed.
std::optional<std::string> FindProgram(const std::string& program);

// Its standard output is read all the time; its standard error is the test's.
// Its standard input ends with this object.
// Start it from the main thread: the kernel ends it with the thread that
// started it.
class Process {
 public:
  // `command[0]` is looked up like FindProgram does; dies if it is not there.
  explicit Process(std::vector<std::string> command);
  // Kills it, and whatever it has started, if it still runs.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The first line that starts with `prefix`, once it is there; nothing after
  // `timeout`, or if the process ends without one.
  std::optional<std::string> AwaitLine(
      absl::string_view prefix, absl::Duration timeout = absl::Seconds(20));
  // All lines so far, complete ones only.
  std::vector<std::string> lines() const;

  // Into its standard input.
  void WriteLine(const std::string& line) const;
  void Signal(int signal) const;
  bool running();
  // Blocks until it has ended by itself, or after a signal; all it wrote has
  // been read then. False after `timeout`.
  bool AwaitEnd(absl::Duration timeout = absl::Seconds(20));
  // SIGKILL to it and to whatever it has started; returns when it is gone.
  void Kill();

  pid_t pid() const { return pid_; }

 private:
  void ReadLines(int fd);

  pid_t pid_ = -1;
  int input_ = -1;
  bool ended_ = false;  // and reaped
  mutable absl::Mutex mu_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::thread reader_;
};

}  // namespace retry_guard::interop

#endif  // RETRY_GUARD_TESTS_INTEROP_PROCESS_H_
