// The backend: a fixed number of workers behind a queue, bounded by a limiter.

#ifndef EXAMPLES_STORM_BACKEND_H_
#define EXAMPLES_STORM_BACKEND_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "grpcpp/support/status.h"
#include "shared_page.h"

namespace storm {

// Works through what was queued, in order, whether or not its caller still
// waits: like most servers it does not look. Thread-safe. Has no end: the
// process is killed.
class WorkerPool {
 public:
  using Done = std::function<void(const grpc::Status&)>;

  WorkerPool(const SharedPage& levers, uint64_t seed);

  // `done` is called from a worker.
  void Submit(Done done);

 private:
  void Work();
  Done Next();
  grpc::Status Answer();

  const SharedPage& levers_;
  std::mutex mutex_;
  std::condition_variable not_empty_;
  std::deque<Done> queue_;
  std::mt19937_64 random_;
  int answers_left_ = 0;
  int unlucky_ = 0;
  std::vector<std::thread> workers_;
};

// The backend process. Never returns normally; 1 if it cannot listen.
int RunBackend(int port, int shared_fd, uint64_t seed);

}  // namespace storm

#endif  // EXAMPLES_STORM_BACKEND_H_
