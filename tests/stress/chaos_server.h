// The server that acts the script, for all shapes of calls, and can go away and
// come back on the same port.

#ifndef RETRY_GUARD_TESTS_STRESS_CHAOS_SERVER_H_
#define RETRY_GUARD_TESTS_STRESS_CHAOS_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>

#include "tests/stress/ledger.h"

namespace retry_guard::stress {

class ChaosServer {
 public:
  ChaosServer(uint64_t seed, const Limits& limits, Ledger* ledger,
              Faults* faults);
  ~ChaosServer();

  std::string address() const;

  // Ends every call that is being served, at once, and listens again.
  void Restart();

  // From now on all calls succeed.
  void Calm() { calm_ = true; }

  // Not during a restart.
  int64_t arrivals() const;

 private:
  class Service;
  void Start();

  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  int64_t arrivals_before_ = 0;  // the last restart
  std::atomic<bool> calm_{false};
};

}  // namespace retry_guard::stress

#endif  // RETRY_GUARD_TESTS_STRESS_CHAOS_SERVER_H_
