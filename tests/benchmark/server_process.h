// The server of the benchmarks, in a process of its own: what is measured is
// the client's.

#ifndef TESTS_BENCHMARK_SERVER_PROCESS_H_
#define TESTS_BENCHMARK_SERVER_PROCESS_H_

#include <sys/types.h>

#include <string>

namespace retry_guard::benchmarks {

// Serves EchoService until its standard input is closed. Prints its address to
// standard output once it is ready. For the child.
int ServeUntilParentIsGone();

// Runs this program again, as `--serve`. Ends it when destroyed; should this
// process die first, the child sees its input end.
class ServerProcess {
 public:
  ServerProcess();
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& address() const { return address_; }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  std::string address_;
};

}  // namespace retry_guard::benchmarks

#endif  // TESTS_BENCHMARK_SERVER_PROCESS_H_
