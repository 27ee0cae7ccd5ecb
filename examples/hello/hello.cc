// A client that retries, and says what it decides. See README.md.

#include <chrono>
#include <iostream>
#include <memory>

#include "flaky_server.h"
#include "grpcpp/grpcpp.h"
#include "retry_guard/channel.h"
#include "retry_guard/examples/hello.grpc.pb.h"
#include "retry_guard/observer.h"

namespace {

using retry_guard::examples::Greeter;
using retry_guard::examples::HelloReply;
using retry_guard::examples::HelloRequest;

// A gRPC service config. "retryPolicy" is gRPC's own part, "retryGuard" ours.
constexpr char kPolicy[] = R"json({
  "methodConfig": [{
    "name": [{"service": "retry_guard.examples.Greeter"}],
    "retryPolicy": {
      "maxAttempts": 4,
      "initialBackoff": "0.05s",
      "maxBackoff": "1s",
      "backoffMultiplier": 2,
      "retryableStatusCodes": ["UNAVAILABLE"]
    },
    "retryGuard": {"perAttemptTimeout": "0.5s"}
  }],
  "retryGuard": {"budget": {"ratio": 0.1, "minRetries": 10}}
})json";

// Sees every decision, refusals to retry as well.
class PrintDecisions final : public retry_guard::Observer {
  void OnDecision(const retry_guard::Decision& decision) override {
    std::cout << decision.method << ", attempt " << decision.attempt << ": "
              << decision.code << " -> " << decision.verdict << " ("
              << decision.reason << ")" << std::endl;
  }
};

}  // namespace

int main() {
  FlakyServer server;

  retry_guard::InterceptorOptions options;
  options.service_config_json = kPolicy;
  options.observers.push_back(std::make_shared<PrintDecisions>());
  auto channel = retry_guard::CreateChannel(
      server.address(), grpc::InsecureChannelCredentials(), options);
  if (!channel.ok()) {  // an error in the policy
    std::cerr << channel.status() << std::endl;
    return 1;
  }

  // From here on it is a gRPC client like any other.
  auto stub = Greeter::NewStub(*channel);
  HelloRequest request;
  request.set_name("world");
  HelloReply reply;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(10));
  grpc::Status status = stub->Hello(&context, request, &reply);
  if (!status.ok()) {
    std::cerr << status.error_message() << std::endl;
    return 1;
  }
  std::cout << reply.text() << std::endl;
}
