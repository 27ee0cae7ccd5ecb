#include "tests/interop/proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/end2end/scripted_server.h"
#include "tests/interop/await.h"

namespace retry_guard::interop {
namespace {

// It was free a moment ago. Proxies cannot be made to bind to port 0 and say
// which it was.
int FreePort() { return end2end::ClosedPort().port(); }

bool AcceptsConnections(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool accepted =
      connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return accepted;
}

// nginx hands a call to the next backend only if it cannot have been executed.
// A backend that failed is tried again at once: how long an outage lasts is the
// tests' business.
constexpr char kNginx[] = R"(
daemon off;
$user
worker_processes 1;
pid $dir/nginx.pid;
error_log stderr crit;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path $dir/body;
  proxy_temp_path $dir/proxy;
  fastcgi_temp_path $dir/fastcgi;
  uwsgi_temp_path $dir/uwsgi;
  scgi_temp_path $dir/scgi;
  limit_req_zone $binary_remote_addr zone=once:64k rate=1r/m;
  upstream backends { $backends }
  server {
    listen 127.0.0.1:$port http2;
    $extra
    location / { $location }
  }
}
)";

// Without retries and redispatch of its own. A backend that is slow to answer a
// check, as all are on a busy machine, is not down.
constexpr char kHaproxy[] = R"(
global
  stats socket abns@retry_guard_$port level admin expose-fd listeners
  log stderr local0 emerg
defaults
  mode http
  retries 0
  timeout connect 2s
  timeout check 2s
  timeout client 60s
  timeout server 60s
  default-server proto h2 check inter 100ms fall 1 rise 1
frontend calls
  bind 127.0.0.1:$port proto h2
$extra
  default_backend backends
backend backends
  balance roundrobin
$backends
)";

constexpr char kNghttpx[] = R"(
frontend=127.0.0.1,$port;no-tls
$backends
workers=1
backend-max-backoff=1
no-ocsp=yes
errorlog-file=/dev/stderr
accesslog-file=/dev/null
log-level=FATAL
$extra
)";

std::string Fill(const ProxySetup& setup, const char* text,
                 const std::string& directory, int port,
                 const std::string& backends) {
  return absl::StrReplaceAll(
      text, {{"$dir", directory},
             {"$user", geteuid() == 0 ? "user root;" : ""},
             {"$port", absl::StrCat(port)},
             {"$backends", backends},
             {"$location", setup.location.empty() ? "grpc_pass grpc://backends;"
                                                  : setup.location},
             {"$extra", setup.extra}});
}

}  // namespace

std::string ProxyName(ProxyKind kind) {
  switch (kind) {
    case ProxyKind::kNginx:
      return "Nginx";
    case ProxyKind::kHaproxy:
      return "Haproxy";
    case ProxyKind::kNghttpx:
      return "Nghttpx";
  }
  return "?";
}

std::ostream& operator<<(std::ostream& os, ProxyKind kind) {
  return os << ProxyName(kind);
}

Proxy::Proxy(ProxySetup setup) : setup_(std::move(setup)) {
  constexpr int kTries = 5;
  for (int i = 0; i < kTries; ++i) {
    port_ = FreePort();
    if (TryStart()) return;
  }
  std::fprintf(stderr, "%s does not start\n", ProxyName(setup_.kind).c_str());
  std::abort();
}

std::string Proxy::address() const { return absl::StrCat("127.0.0.1:", port_); }

std::string Proxy::Configure() const {
  std::string backends;
  switch (setup_.kind) {
    case ProxyKind::kNginx:
      for (const std::string& address : setup_.backends) {
        absl::StrAppend(&backends, "server ", address, " max_fails=0; ");
      }
      return Fill(setup_, kNginx, scratch_.path(), port_, backends);
    case ProxyKind::kHaproxy:
      for (const std::string& address : setup_.backends) {
        absl::StrAppend(&backends, "  server ",
                        absl::StrReplaceAll(address, {{":", "_"}}), " ",
                        address, "\n");
      }
      return Fill(setup_, kHaproxy, scratch_.path(), port_, backends);
    case ProxyKind::kNghttpx:
      for (const std::string& address : setup_.backends) {
        absl::StrAppend(&backends,
                        "backend=", absl::StrReplaceAll(address, {{":", ","}}),
                        ";;proto=h2\n");
      }
      return Fill(setup_, kNghttpx, scratch_.path(), port_, backends);
  }
  return "";
}

bool Proxy::TryStart() {
  const std::string file = scratch_.Write("config", Configure());
  switch (setup_.kind) {
    case ProxyKind::kNginx:
      process_.emplace(std::vector<std::string>{"nginx", "-e", "stderr", "-p",
                                                scratch_.path(), "-c", file});
      break;
    case ProxyKind::kHaproxy:
      process_.emplace(
          std::vector<std::string>{"haproxy", "-W", "-q", "-f", file});
      break;
    case ProxyKind::kNghttpx:
      process_.emplace(
          std::vector<std::string>{"nghttpx", absl::StrCat("--conf=", file)});
      break;
  }
  // A port that somebody else took meanwhile accepts connections, too; then our
  // process ends.
  Await([this] {
    return !process_->running() ||
           (!Workers().empty() && AcceptsConnections(port_));
  });
  return process_->running();
}

std::vector<pid_t> Proxy::Workers() const {
  const std::string self = absl::StrCat(process_->pid());
  std::ifstream children(
      absl::StrCat("/proc/", self, "/task/", self, "/children"));
  std::vector<pid_t> workers;
  for (pid_t pid; children >> pid;) workers.push_back(pid);
  return workers;
}

std::vector<pid_t> Proxy::Reload() {
  std::vector<pid_t> before = Workers();
  // HAProxy's master takes HUP for a wish to see its servers.
  process_->Signal(setup_.kind == ProxyKind::kHaproxy ? SIGUSR2 : SIGHUP);
  const auto is_new = [&before](pid_t worker) {
    return std::find(before.begin(), before.end(), worker) == before.end();
  };
  const bool reloaded = Await([this, &is_new] {
    const std::vector<pid_t> now = Workers();
    return std::any_of(now.begin(), now.end(), is_new);
  });
  if (!reloaded) {
    std::fprintf(stderr, "%s does not reload\n",
                 ProxyName(setup_.kind).c_str());
    std::abort();
  }
  return before;
}

bool Proxy::AwaitEnd(const std::vector<pid_t>& workers) {
  return Await([&workers] {
    return std::none_of(workers.begin(), workers.end(),
                        [](pid_t worker) { return kill(worker, 0) == 0; });
  });
}

void Proxy::Kill() { process_.reset(); }

void Proxy::Start() {
  if (TryStart()) return;
  std::fprintf(stderr, "%s does not start again\n",
               ProxyName(setup_.kind).c_str());
  std::abort();
}

}  // namespace retry_guard::interop
