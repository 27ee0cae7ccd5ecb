// The backend as its parent sees it: a process to start, kill and start again.

#ifndef EXAMPLES_STORM_BACKEND_PROCESS_H_
#define EXAMPLES_STORM_BACKEND_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "shared_page.h"

namespace storm {

// Not thread-safe. Start() from the main thread: the kernel ends the backend
// with the thread that started it.
class BackendProcess {
 public:
  explicit BackendProcess(uint64_t seed);
  ~BackendProcess();

  BackendProcess(const BackendProcess&) = delete;
  BackendProcess& operator=(const BackendProcess&) = delete;

  // Returns when it listens; throws if it does not come up. Always at the same
  // address.
  void Start();
  void Kill();

  std::string address() const;
  SharedPage& page() const { return shared_.page(); }

 private:
  uint64_t seed_;
  SharedMapping shared_ = SharedMapping::Create();
  int port_ = 0;
  int reservation_;  // a socket that keeps the port ours while nobody listens
  pid_t pid_ = -1;
};

}  // namespace storm

#endif  // EXAMPLES_STORM_BACKEND_PROCESS_H_
