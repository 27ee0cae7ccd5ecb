// A real server on loopback that answers by a script, in ways that a generated
// service cannot: a message and then a failure, a status that is no status
// code. Remembers what it saw.

#ifndef RETRY_GUARD_TESTS_CONFORMANCE_SCENARIO_SERVER_H_
#define RETRY_GUARD_TESTS_CONFORMANCE_SCENARIO_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace retry_guard::conformance {

// What the server does with one attempt.
struct Reply {
  int status = 0;  // may be outside 0..16
  std::string message;
  std::string details;
  std::multimap<std::string, std::string> trailers;
  bool headers = false;  // sends response headers first
  int messages = 0;      // sends so many before the status; an OK at least one
  bool hold = false;     // never answers

  static Reply Ok() { return Reply(); }
  static Reply Fail(int status, std::string message = "") {
    Reply reply;
    reply.status = status;
    reply.message = std::move(message);
    return reply;
  }
  static Reply Hold() {
    Reply reply;
    reply.hold = true;
    return reply;
  }
  // As gRPC core reports a stream that the peer refused.
  static Reply Refuse() {
    return Fail(grpc::StatusCode::UNAVAILABLE, "GOAWAY received");
  }
};

// What it saw of one attempt.
struct SeenAttempt {
  std::multimap<std::string, std::string> metadata;

  // "" if it is not there.
  std::string One(const std::string& key) const {
    const auto found = metadata.find(key);
    return found == metadata.end() ? "" : found->second;
  }
};

class ScenarioServer {
 public:
  // Answers attempt number n (from 0) with script[n], later ones with the last
  // entry. The reply's text is "attempt <n+1>". Port 0: any.
  explicit ScenarioServer(std::vector<Reply> script, int port = 0);
  ~ScenarioServer();

  int port() const { return port_; }
  std::vector<SeenAttempt> seen() const;

 private:
  class Service;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace retry_guard::conformance

#endif  // RETRY_GUARD_TESTS_CONFORMANCE_SCENARIO_SERVER_H_
