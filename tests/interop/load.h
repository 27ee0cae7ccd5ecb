// Users that call all the time until they are told to stop.

#ifndef RETRY_GUARD_TESTS_INTEROP_LOAD_H_
#define RETRY_GUARD_TESTS_INTEROP_LOAD_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/end2end/call_styles.h"

namespace retry_guard::interop {

class Load {
 public:
  // A user for each style. Each call has an id of its own.
  Load(std::shared_ptr<grpc::Channel> channel, std::string method,
       const std::vector<end2end::Style>& styles);
  ~Load();

  // Blocks until so many more calls have ended; false after a while.
  bool AwaitCalls(int count) const;

  // Ends the calls under way; how each call ended, by its id.
  std::map<std::string, grpc::Status> Stop();

 private:
  void BeUser(end2end::Style style);

  const std::shared_ptr<grpc::Channel> channel_;
  const std::string method_;
  std::atomic<bool> stopping_{false};
  mutable absl::Mutex mu_;
  std::map<std::string, grpc::Status> results_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> users_;
};

}  // namespace retry_guard::interop

#endif  // RETRY_GUARD_TESTS_INTEROP_LOAD_H_
