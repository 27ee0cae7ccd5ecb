#include "tests/benchmark/server_process.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "retry_guard/testing/echo.grpc.pb.h"

namespace retry_guard::benchmarks {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;

// Sends the same reply as often as the request's text says.
class Repeater final : public grpc::ServerWriteReactor<EchoReply> {
 public:
  explicit Repeater(const EchoRequest& request) {
    reply_.set_payload(request.payload());
    if (!absl::SimpleAtoi(request.text(), &left_)) left_ = 0;
    Next();
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      Next();
    } else {
      Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "nobody reads"));
    }
  }
  void OnDone() override { delete this; }

 private:
  void Next() {
    if (left_-- > 0) {
      StartWrite(&reply_);
    } else {
      Finish(grpc::Status::OK);
    }
  }

  EchoReply reply_;
  int left_ = 0;
};

// Says how many messages it was sent.
class Counter final : public grpc::ServerReadReactor<EchoRequest> {
 public:
  explicit Counter(EchoReply* reply) : reply_(reply) { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    if (ok) {
      ++messages_;
      StartRead(&request_);
      return;
    }
    reply_->set_text(absl::StrCat(messages_));
    Finish(grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  EchoRequest request_;
  EchoReply* const reply_;
  int messages_ = 0;
};

class Silent final : public grpc::ServerUnaryReactor {
 public:
  void OnCancel() override { Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }
};

class Server final : public EchoService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Unary(grpc::CallbackServerContext* context,
                                  const EchoRequest* request,
                                  EchoReply* reply) override {
    reply->set_payload(request->payload());
    return Done(context, grpc::Status::OK);
  }

  // Fails always: its callers are in backoff, or give up.
  grpc::ServerUnaryReactor* Idempotent(grpc::CallbackServerContext* context,
                                       const EchoRequest* /*request*/,
                                       EchoReply* /*reply*/) override {
    return Done(context, grpc::Status(grpc::StatusCode::UNAVAILABLE, "down"));
  }

  // Does not answer.
  grpc::ServerUnaryReactor* ReadOnly(grpc::CallbackServerContext* /*context*/,
                                     const EchoRequest* /*request*/,
                                     EchoReply* /*reply*/) override {
    return new Silent();
  }

  grpc::ServerWriteReactor<EchoReply>* ServerStream(
      grpc::CallbackServerContext* /*context*/,
      const EchoRequest* request) override {
    return new Repeater(*request);
  }

  grpc::ServerReadReactor<EchoRequest>* ClientStream(
      grpc::CallbackServerContext* /*context*/, EchoReply* reply) override {
    return new Counter(reply);
  }

 private:
  static grpc::ServerUnaryReactor* Done(grpc::CallbackServerContext* context,
                                        const grpc::Status& status) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }
};

[[noreturn]] void ThrowErrno(const char* what, int error = errno) {
  throw std::system_error(error, std::generic_category(), what);
}

}  // namespace

int ServeUntilParentIsGone() {
  Server service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::printf("127.0.0.1:%d\n", port);
  std::fflush(stdout);
  char ignored = 0;
  while (read(STDIN_FILENO, &ignored, 1) > 0) {
  }
  // Whatever calls are open belong to a client that is gone.
  _exit(0);
}

ServerProcess::ServerProcess() {
  std::array<int, 2> to_child{};
  std::array<int, 2> from_child{};
  if (pipe2(to_child.data(), O_CLOEXEC) != 0 ||
      pipe2(from_child.data(), O_CLOEXEC) != 0) {
    ThrowErrno("pipe");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_child[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from_child[1], STDOUT_FILENO);
  std::string self = "/proc/self/exe";
  std::string serve = "--serve";
  const std::array<char*, 3> arguments = {self.data(), serve.data(), nullptr};
  const int error = posix_spawn(&pid_, self.c_str(), &actions, nullptr,
                                arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to_child[0]);
  close(from_child[1]);
  if (error != 0) ThrowErrno("start the server", error);
  input_ = to_child[1];
  char c = 0;
  while (read(from_child[0], &c, 1) == 1 && c != '\n') address_ += c;
  close(from_child[0]);
  if (address_.empty()) throw std::runtime_error("the server did not come up");
}

ServerProcess::~ServerProcess() {
  close(input_);
  waitpid(pid_, nullptr, 0);
}

}  // namespace retry_guard::benchmarks
