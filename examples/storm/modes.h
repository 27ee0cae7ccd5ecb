// The four ways to call the backend.

#ifndef EXAMPLES_STORM_MODES_H_
#define EXAMPLES_STORM_MODES_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grpcpp/channel.h"
#include "load.h"
#include "retry_guard/examples/storm.grpc.pb.h"

namespace storm {

// "no_retry", "naive", "grpc_builtin", "retry_guard", in the order of the run.
const std::vector<std::string_view>& ModeNames();

// Calls the backend in the way of one mode. Deadline, number of attempts and
// reconnection are the same in all modes.
class Client {
 public:
  // Connects. Throws on an unknown mode, or when the backend cannot be reached.
  Client(std::string_view mode, const std::string& address);
  ~Client();

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Starts one request and returns at once. Thread-safe.
  void Call(Done done) const;

 private:
  using Stub = std::shared_ptr<retry_guard::examples::Backend::Stub>;

  std::shared_ptr<grpc::Channel> channel_;
  Stub stub_;
  void (*call_)(const Stub&, Done) = nullptr;
};

}  // namespace storm

#endif  // EXAMPLES_STORM_MODES_H_
