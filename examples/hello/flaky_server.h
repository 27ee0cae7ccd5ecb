// A server for the example: its first two answers are UNAVAILABLE.

#ifndef EXAMPLES_HELLO_FLAKY_SERVER_H_
#define EXAMPLES_HELLO_FLAKY_SERVER_H_

#include <atomic>
#include <memory>
#include <string>

#include "grpcpp/grpcpp.h"
#include "retry_guard/examples/hello.grpc.pb.h"

class FlakyServer final : public retry_guard::examples::Greeter::Service {
 public:
  FlakyServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  grpc::Status Hello(grpc::ServerContext* /*context*/,
                     const retry_guard::examples::HelloRequest* request,
                     retry_guard::examples::HelloReply* reply) override {
    if (++requests_ <= 2) {
      return {grpc::StatusCode::UNAVAILABLE, "still waking up"};
    }
    reply->set_text("Hello, " + request->name() + "!");
    return grpc::Status::OK;
  }

 private:
  int port_ = 0;  // picked by the system
  std::atomic<int> requests_{0};
  std::unique_ptr<grpc::Server> server_;
};

#endif  // EXAMPLES_HELLO_FLAKY_SERVER_H_
