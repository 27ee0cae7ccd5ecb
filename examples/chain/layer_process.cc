#include "layer_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "retry_guard/policy/absl_view.h"

namespace chain {
namespace {

using retry_guard::AbslView;

[[noreturn]] void ThrowErrno(const char* what, int error = errno) {
  throw std::system_error(error, std::generic_category(), what);
}

// This program again, with its stdout in `out`.
pid_t SpawnSelf(std::vector<std::string> arguments, int out) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr,
                                argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) ThrowErrno("start a layer", error);
  return pid;
}

// 0 if the writer ends without having written one.
int ReadPort(int fd) {
  FILE* const file = fdopen(fd, "r");
  if (file == nullptr) ThrowErrno("fdopen");
  int port = 0;
  if (std::fscanf(file, "%d", &port) != 1) port = 0;
  std::fclose(file);
  return port;
}

}  // namespace

LayerProcess::LayerProcess(Mode mode, int index, const std::string& next) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) ThrowErrno("pipe");
  pid_ = SpawnSelf(
      {absl::StrCat("chain-", AbslView(kLayers[index])),
       absl::StrCat("--layer=", index),
       absl::StrCat("--modes=", AbslView(ModeName(mode))),
       absl::StrCat("--next=", next), absl::StrCat("--parent=", getpid())},
      ends[1]);
  close(ends[1]);  // so that the end of the layer is the end of the file
  const int port = ReadPort(ends[0]);
  if (port == 0) {
    Kill();
    throw std::runtime_error(
        absl::StrCat(AbslView(kLayers[index]), " did not come up"));
  }
  address_ = absl::StrCat("127.0.0.1:", port);
}

LayerProcess::~LayerProcess() { Kill(); }

void LayerProcess::Kill() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

}  // namespace chain
