// A backend that keeps a journal of what it executes, which survives it.
//
//   retry_guard_interop_backend PORT JOURNAL
//
// The text of a request is the id of its call, or ID/MS: then it works for so
// many milliseconds between the journal and the answer. SIGTERM: ends once the
// calls under way have ended.

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "retry_guard/testing/echo.grpc.pb.h"

namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;

constexpr std::chrono::seconds kGrace(5);

class Backend final : public EchoService::Service {
 public:
  explicit Backend(int journal) : journal_(journal) {}

  grpc::Status Unary(grpc::ServerContext* /*context*/,
                     const EchoRequest* request, EchoReply* reply) override {
    return Execute(*request, reply);
  }
  grpc::Status Idempotent(grpc::ServerContext* /*context*/,
                          const EchoRequest* request,
                          EchoReply* reply) override {
    return Execute(*request, reply);
  }

 private:
  grpc::Status Execute(const EchoRequest& request, EchoReply* reply) const {
    const std::vector<std::string> parts = absl::StrSplit(request.text(), '/');
    // One write of a short line to a file that is only appended to: whole, or
    // not there, whatever happens to this process.
    const std::string line = absl::StrCat(parts[0], "\n");
    if (write(journal_, line.data(), line.size()) !=
        static_cast<ssize_t>(line.size())) {
      return grpc::Status(grpc::StatusCode::DATA_LOSS, "no journal");
    }
    int ms = 0;
    if (parts.size() > 1 && absl::SimpleAtoi(parts[1], &ms)) {
      absl::SleepFor(absl::Milliseconds(ms));
    }
    reply->set_text(request.text());
    return grpc::Status::OK;
  }

  const int journal_;
};

int Serve(const std::string& port, const char* journal_file) {
  const int journal =
      open(journal_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (journal < 0) {
    std::perror(journal_file);
    return 1;
  }
  Backend backend(journal);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port),
                           grpc::InsecureServerCredentials());
  builder.RegisterService(&backend);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::printf("listening\n");
  std::fflush(stdout);

  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  int signal = 0;
  sigwait(&ends, &signal);
  server->Shutdown(std::chrono::system_clock::now() + kGrace);
  server->Wait();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s PORT JOURNAL\n", argv[0]);
    return 2;
  }
  // Before there is any thread: it is for sigwait alone.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  return Serve(argv[1], argv[2]);
}
