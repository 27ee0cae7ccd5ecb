// A real proxy in front of backends.

#ifndef RETRY_GUARD_TESTS_INTEROP_PROXY_H_
#define RETRY_GUARD_TESTS_INTEROP_PROXY_H_

#include <sys/types.h>

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/interop/process.h"
#include "tests/interop/scratch.h"

namespace retry_guard::interop {

enum class ProxyKind { kNginx, kHaproxy, kNghttpx };

std::string ProxyName(ProxyKind kind);
std::ostream& operator<<(std::ostream& os, ProxyKind kind);

struct ProxySetup {
  ProxyKind kind;
  std::vector<std::string> backends;  // addresses; taken in turn
  // More of its own configuration, as its own language has it: for nginx into
  // the server block, for HAProxy into the frontend, for nghttpx at the end.
  std::string extra = {};
  // nginx only: instead of passing calls on.
  std::string location = {};
};

class Proxy {
 public:
  // Returns when it listens, on a port that is free.
  explicit Proxy(ProxySetup setup);

  std::string address() const;

  // A graceful restart: new workers take over at once, the old ones end when
  // their connections have. Returns when there are new workers; the list is of
  // the old ones.
  std::vector<pid_t> Reload();
  // Blocks until these workers have ended; false after a while.
  static bool AwaitEnd(const std::vector<pid_t>& workers);

  // kill -9, workers and all.
  void Kill();
  // After Kill: at the same address.
  void Start();

 private:
  bool TryStart();
  std::string Configure() const;
  std::vector<pid_t> Workers() const;

  const ProxySetup setup_;
  const Scratch scratch_;
  int port_ = 0;
  std::optional<Process> process_;
};

}  // namespace retry_guard::interop

#endif  // RETRY_GUARD_TESTS_INTEROP_PROXY_H_
