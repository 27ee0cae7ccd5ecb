#include "tests/interop/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/interop/await.h"

namespace retry_guard::interop {
namespace {

[[noreturn]] void Die(const std::string& what, int error) {
  std::fprintf(stderr, "%s: %s\n", what.c_str(), std::strerror(error));
  std::abort();
}

std::string Locate(const std::string& program) {
  std::optional<std::string> path = FindProgram(program);
  if (!path.has_value()) Die(program, ENOENT);
  return *std::move(path);
}

// In a group of its own, so that a kill reaches what it starts, too.
pid_t Spawn(const std::vector<std::string>& command, int input, int output) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, command[0].c_str(), &actions, &attributes,
                                arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) Die(command[0], error);
  return pid;
}

// The read end and the write end.
std::array<int, 2> MakePipe() {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) Die("pipe", errno);
  return ends;
}

}  // namespace

std::optional<std::string> FindProgram(const std::string& program) {
  if (absl::StrContains(program, "/")) return program;
  const char* const path = std::getenv("PATH");
  const std::string directories =
      absl::StrCat(path == nullptr ? "" : path, ":/usr/sbin:/usr/local/sbin");
  for (const absl::string_view directory : absl::StrSplit(directories, ':')) {
    std::string candidate = absl::StrCat(directory, "/", program);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

Process::Process(std::vector<std::string> command) {
  command[0] = Locate(command[0]);
  // Whatever happens to the test, nothing of it stays behind. TERM, so that a
  // server takes its workers with it.
  command.insert(command.begin(), {Locate("setpriv"), "--pdeathsig", "TERM"});
  const std::array<int, 2> input = MakePipe();
  const std::array<int, 2> output = MakePipe();
  pid_ = Spawn(command, input[0], output[1]);
  close(input[0]);
  close(output[1]);
  input_ = input[1];
  reader_ = std::thread([this, fd = output[0]] { ReadLines(fd); });
}

Process::~Process() {
  Kill();
  close(input_);
}

void Process::ReadLines(int fd) {
  std::string rest;
  std::array<char, 4096> buffer;
  ssize_t size;
  while ((size = read(fd, buffer.data(), buffer.size())) != 0) {
    if (size < 0) {
      if (errno == EINTR) continue;
      break;
    }
    rest.append(buffer.data(), static_cast<size_t>(size));
    size_t end;
    while ((end = rest.find('\n')) != std::string::npos) {
      absl::MutexLock lock(&mu_);
      lines_.push_back(rest.substr(0, end));
      rest.erase(0, end + 1);
    }
  }
  close(fd);
  absl::MutexLock lock(&mu_);
  closed_ = true;
}

std::optional<std::string> Process::AwaitLine(absl::string_view prefix,
                                              absl::Duration timeout) {
  const auto found = [this, prefix]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return std::find_if(lines_.begin(), lines_.end(),
                        [prefix](const std::string& line) {
                          return absl::StartsWith(line, prefix);
                        });
  };
  const auto decided = [this, &found]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return closed_ || found() != lines_.end();
  };
  absl::MutexLock lock(&mu_);
  mu_.AwaitWithTimeout(absl::Condition(&decided), timeout);
  const auto line = found();
  if (line == lines_.end()) return std::nullopt;
  return *line;
}

std::vector<std::string> Process::lines() const {
  absl::MutexLock lock(&mu_);
  return lines_;
}

void Process::WriteLine(const std::string& line) const {
  const std::string text = line + "\n";
  if (write(input_, text.data(), text.size()) !=
      static_cast<ssize_t>(text.size())) {
    Die("write to a process", errno);
  }
}

void Process::Signal(int signal) const {
  if (!ended_) kill(pid_, signal);
}

bool Process::running() {
  if (!ended_ && waitpid(pid_, nullptr, WNOHANG) == pid_) ended_ = true;
  return !ended_;
}

bool Process::AwaitEnd(absl::Duration timeout) {
  if (!Await([this] { return !running(); }, timeout)) return false;
  if (reader_.joinable()) reader_.join();
  return true;
}

void Process::Kill() {
  // The group outlives its leader as long as anything in it does.
  kill(-pid_, SIGKILL);
  AwaitEnd(absl::InfiniteDuration());
}

}  // namespace retry_guard::interop
