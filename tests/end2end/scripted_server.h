// A real server on loopback that answers by a script, and remembers what it
// saw.

#ifndef RETRY_GUARD_TESTS_END2END_SCRIPTED_SERVER_H_
#define RETRY_GUARD_TESTS_END2END_SCRIPTED_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "retry_guard/testing/echo.grpc.pb.h"

namespace retry_guard::end2end {

// What the server does with one call that reaches it.
struct Reaction {
  grpc::Status status;
  std::multimap<std::string, std::string> initial;
  std::multimap<std::string, std::string> trailing;
  // Sends the response headers at once and keeps the rest back until Release.
  bool headers_first = false;
  // Answers only when ScriptedServer::Release is called, or the client is gone.
  bool hold = false;
};

inline Reaction Fail(grpc::StatusCode code, const std::string& message = "",
                     const std::string& details = "") {
  Reaction reaction;
  reaction.status = grpc::Status(code, message, details);
  return reaction;
}
inline Reaction Unavailable(const std::string& message = "down") {
  return Fail(grpc::StatusCode::UNAVAILABLE, message);
}
inline Reaction Succeed() { return Reaction(); }
inline Reaction Hold(grpc::Status then = grpc::Status::OK) {
  Reaction reaction;
  reaction.status = std::move(then);
  reaction.hold = true;
  return reaction;
}
inline Reaction HeadersFirst(Reaction reaction) {
  reaction.headers_first = true;
  return reaction;
}
inline Reaction WithTrailing(Reaction reaction, const std::string& key,
                             const std::string& value) {
  reaction.trailing.emplace(key, value);
  return reaction;
}
inline Reaction WithInitial(Reaction reaction, const std::string& key,
                            const std::string& value) {
  reaction.initial.emplace(key, value);
  return reaction;
}

// What the server saw of one call.
struct SeenCall {
  std::string method;
  std::string text;
  std::multimap<std::string, std::string> metadata;
  std::string authority;
  std::chrono::system_clock::time_point deadline;
  absl::Time at;
  grpc_compression_algorithm compression = GRPC_COMPRESS_NONE;

  // Every value of `key`, in their order.
  std::vector<std::string> Values(const std::string& key) const;

  // How much time the call had left when it arrived.
  absl::Duration time_left() const;
};

// All of it but the text.
SeenCall LookAt(const std::string& method,
                grpc::CallbackServerContext* context);

class ScriptedServer {
 public:
  // Answers call number n (from 0) with script[n], later ones with the last
  // entry. OK replies echo the request's text. Port 0: any.
  explicit ScriptedServer(std::vector<Reaction> script = {Succeed()},
                          const std::shared_ptr<grpc::ServerCredentials>&
                              credentials = grpc::InsecureServerCredentials(),
                          int port = 0);
  ~ScriptedServer();

  std::string address() const;
  int port() const { return port_; }

  // Starts anew, with this script; the calls seen are forgotten.
  void SetScript(std::vector<Reaction> script);

  // A script of its own for the calls with this text.
  void SetScriptFor(const std::string& text, std::vector<Reaction> script);

  std::vector<SeenCall> seen() const;
  std::vector<SeenCall> seen(const std::string& text) const;
  int calls() const;

  // Blocks until `count` calls have arrived; false after `timeout`.
  bool AwaitCalls(int count, absl::Duration timeout = absl::Seconds(20)) const;
  // Until `count` held calls were cancelled by their client.
  bool AwaitCancelled(int count,
                      absl::Duration timeout = absl::Seconds(20)) const;

  // Lets every held call go, and those to come.
  void Release();
  // Lets the calls with this text go that are held right now.
  void Release(const std::string& text);

  // Ends the server; calls that it holds are let go.
  void Shutdown();

 private:
  class Service;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

// A port of this machine on which nobody listens, so that a connection is
// refused at once; it stays ours as long as this lives. A ScriptedServer can be
// started on it.
class ClosedPort {
 public:
  ClosedPort();
  ~ClosedPort();
  ClosedPort(const ClosedPort&) = delete;
  ClosedPort& operator=(const ClosedPort&) = delete;

  int port() const { return port_; }
  std::string address() const;

 private:
  int socket_ = -1;
  int port_ = 0;
};

// A server without a schema: for answers that no proper one gives.
struct RawReaction {
  std::vector<std::string> messages;  // bytes, one message each
  grpc::Status status;
};

class RawServer {
 public:
  explicit RawServer(std::vector<RawReaction> script);
  ~RawServer();

  std::string address() const;
  int calls() const;

 private:
  class Service;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace retry_guard::end2end

#endif  // RETRY_GUARD_TESTS_END2END_SCRIPTED_SERVER_H_
