#include "backend_process.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "steady_time.h"

namespace storm {
namespace {

[[noreturn]] void ThrowErrno(const char* what, int error = errno) {
  throw std::system_error(error, std::generic_category(), what);
}

// Bound and never listening: connections are refused, and with SO_REUSEPORT,
// which gRPC's server sets too, the backend can still bind the same port.
int ReservePort(int* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) ThrowErrno("socket");
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0 ||
      bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    ThrowErrno("reserve a port");
  }
  *port = ntohs(address.sin_port);
  return fd;
}

}  // namespace

BackendProcess::BackendProcess(uint64_t seed)
    : seed_(seed), reservation_(ReservePort(&port_)) {}

BackendProcess::~BackendProcess() {
  Kill();
  close(reservation_);
}

void BackendProcess::Start() {
  std::string self = "/proc/self/exe";
  std::string backend = "--backend";
  std::string port = absl::StrCat("--port=", port_);
  std::string shared_fd = absl::StrCat("--shared_fd=", shared_.fd());
  std::string seed = absl::StrCat("--seed=", seed_);
  const std::array<char*, 6> arguments = {self.data(), backend.data(),
                                          port.data(), shared_fd.data(),
                                          seed.data(), nullptr};
  page().serving = false;
  const int error = posix_spawn(&pid_, self.c_str(), nullptr, nullptr,
                                arguments.data(), environ);
  if (error != 0) ThrowErrno("start the backend", error);
  while (!page().serving) {
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      throw std::runtime_error("the backend did not come up");
    }
    SleepUntil(SteadyNow() + absl::Milliseconds(1));
  }
}

void BackendProcess::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string BackendProcess::address() const {
  return absl::StrCat("127.0.0.1:", port_);
}

}  // namespace storm
