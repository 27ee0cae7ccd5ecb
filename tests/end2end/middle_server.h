// A server in the middle of a chain, whose handlers make calls of their own.

#ifndef RETRY_GUARD_TESTS_END2END_MIDDLE_SERVER_H_
#define RETRY_GUARD_TESTS_END2END_MIDDLE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "retry_guard/server.h"

namespace retry_guard::end2end {

// Serves a call on a thread that may block. `from_server` is the context that
// ClientContext::FromServerContext makes of it.
using MiddleHandler = std::function<grpc::Status(
    grpc::ServerContextBase* inbound,
    std::unique_ptr<grpc::ClientContext> from_server)>;

// Which API of gRPC's the server uses.
enum class ServerKind { kSync, kCallback, kQueue };

std::vector<ServerKind> AllServerKinds();
std::string ServerKindName(ServerKind kind);

// EchoService.Unary, by `handler`.
class MiddleServer {
 public:
  // With our server interceptor if it is told what to trust.
  MiddleServer(ServerKind kind, MiddleHandler handler,
               std::optional<Inbound> interceptor = std::nullopt);

  // Open calls are cancelled, and their handlers waited for.
  ~MiddleServer();

  std::shared_ptr<grpc::Channel> BareChannelTo() const;

 private:
  class Service;
  class Sync;
  class Callback;
  class Queue;

  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace retry_guard::end2end

#endif  // RETRY_GUARD_TESTS_END2END_MIDDLE_SERVER_H_
