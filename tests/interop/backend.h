// A backend process as a test sees it: to start, stop, kill and start again at
// the same address, with a journal of what it has ever executed.

#ifndef RETRY_GUARD_TESTS_INTEROP_BACKEND_H_
#define RETRY_GUARD_TESTS_INTEROP_BACKEND_H_

#include <map>
#include <optional>
#include <string>

#include "tests/end2end/scripted_server.h"
#include "tests/interop/process.h"
#include "tests/interop/scratch.h"

namespace retry_guard::interop {

// How often each call was executed, by its id.
using Executions = std::map<std::string, int>;

class Backend {
 public:
  // Not started.
  Backend() = default;

  // Returns when it listens.
  void Start();
  // Lets the calls under way end; returns when it is gone.
  void Stop();
  // kill -9.
  void Kill();

  std::string address() const { return port_.address(); }

  // Since the first Start, whatever has become of it.
  Executions executions() const;
  // Blocks until it has executed this call; false after a while.
  bool AwaitExecution(const std::string& id) const;
  // … or anything more than it has until now.
  bool AwaitAnyExecution() const;

 private:
  size_t JournalSize() const;

  const end2end::ClosedPort port_;
  const Scratch scratch_;
  std::optional<Process> process_;
};

// Adds up what several backends have executed.
Executions Sum(const Executions& a, const Executions& b);

}  // namespace retry_guard::interop

#endif  // RETRY_GUARD_TESTS_INTEROP_BACKEND_H_
