#include "tests/end2end/scripted_server.h"

#include <arpa/inet.h>
#include <grpcpp/generic/async_generic_service.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

// Exported by libgrpc for tests, in no public header.
grpc_compression_algorithm grpc_call_test_only_get_compression_algorithm(
    grpc_call* call);

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;

std::string ToString(grpc::string_ref text) {
  return text.data() == nullptr ? "" : std::string(text.data(), text.size());
}

[[noreturn]] void Die(const char* why) {
  std::perror(why);
  std::abort();
}

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

SeenCall LookAt(const std::string& method,
                grpc::CallbackServerContext* context) {
  SeenCall seen;
  seen.method = method;
  for (const auto& [key, value] : context->client_metadata()) {
    seen.metadata.emplace(ToString(key), ToString(value));
  }
  seen.authority = ToString(context->ExperimentalGetAuthority());
  seen.deadline = context->deadline();
  seen.at = absl::Now();
  seen.compression =
      grpc_call_test_only_get_compression_algorithm(context->c_call());
  return seen;
}

std::vector<std::string> SeenCall::Values(const std::string& key) const {
  std::vector<std::string> values;
  const auto [first, last] = metadata.equal_range(key);
  for (auto it = first; it != last; ++it) values.push_back(it->second);
  return values;
}

absl::Duration SeenCall::time_left() const {
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return absl::InfiniteDuration();
  }
  return absl::FromChrono(deadline) - at;
}

class ScriptedServer::Service final : public EchoService::CallbackService {
 public:
  explicit Service(std::vector<Reaction> script) {
    script_.reactions = std::move(script);
  }

  grpc::ServerUnaryReactor* Unary(grpc::CallbackServerContext* context,
                                  const EchoRequest* request,
                                  EchoReply* reply) override {
    return React("Unary", context, request, reply);
  }
  grpc::ServerUnaryReactor* Idempotent(grpc::CallbackServerContext* context,
                                       const EchoRequest* request,
                                       EchoReply* reply) override {
    return React("Idempotent", context, request, reply);
  }
  grpc::ServerUnaryReactor* ReadOnly(grpc::CallbackServerContext* context,
                                     const EchoRequest* request,
                                     EchoReply* reply) override {
    return React("ReadOnly", context, request, reply);
  }

  void SetScript(std::vector<Reaction> script) {
    absl::MutexLock lock(&mu_);
    script_ = Script{std::move(script)};
    scripts_.clear();
    seen_.clear();
    cancelled_ = 0;
    released_ = false;
  }

  void SetScriptFor(const std::string& text, std::vector<Reaction> script) {
    absl::MutexLock lock(&mu_);
    scripts_[text] = Script{std::move(script)};
  }

  std::vector<SeenCall> seen() const {
    absl::MutexLock lock(&mu_);
    return seen_;
  }

  bool AwaitCalls(int count, absl::Duration timeout) const {
    absl::MutexLock lock(&mu_);
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return static_cast<int>(seen_.size()) >= count;
    };
    return mu_.AwaitWithTimeout(absl::Condition(&enough), timeout);
  }

  bool AwaitCancelled(int count, absl::Duration timeout) const {
    absl::MutexLock lock(&mu_);
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return cancelled_ >= count;
    };
    return mu_.AwaitWithTimeout(absl::Condition(&enough), timeout);
  }

  // Those with this text; without one all, and those to come.
  void Release(const std::optional<std::string>& text) {
    std::vector<HeldCall*> free;
    {
      absl::MutexLock lock(&mu_);
      if (!text.has_value()) released_ = true;
      const auto stays = [&text](const HeldCall* call) {
        return text.has_value() && call->text() != *text;
      };
      const auto first_free =
          std::stable_partition(held_.begin(), held_.end(), stays);
      free.assign(first_free, held_.end());
      held_.erase(first_free, held_.end());
    }
    for (HeldCall* const call : free) call->Finish(call->then());
  }

 private:
  struct Script {
    std::vector<Reaction> reactions;
    size_t next = 0;
  };

  // Finishes at once, on Release, or when the client is gone.
  class HeldCall final : public grpc::ServerUnaryReactor {
   public:
    HeldCall(Service* service, std::string text, grpc::Status then)
        : service_(service), text_(std::move(text)), then_(std::move(then)) {}

    const std::string& text() const { return text_; }
    const grpc::Status& then() const { return then_; }
    void OnDone() override { delete this; }
    void OnCancel() override {
      if (service_->Forget(this)) Finish(grpc::Status::CANCELLED);
    }

   private:
    Service* const service_;
    const std::string text_;
    const grpc::Status then_;
  };

  grpc::ServerUnaryReactor* React(const std::string& method,
                                  grpc::CallbackServerContext* context,
                                  const EchoRequest* request,
                                  EchoReply* reply) {
    const Reaction reaction = NextReaction(request->text());
    reply->set_text(request->text());
    reply->set_payload(request->payload());
    for (const auto& [key, value] : reaction.initial) {
      context->AddInitialMetadata(key, value);
    }
    for (const auto& [key, value] : reaction.trailing) {
      context->AddTrailingMetadata(key, value);
    }
    auto* const call = new HeldCall(this, request->text(), reaction.status);
    if (reaction.headers_first) call->StartSendInitialMetadata();
    bool hold = reaction.hold;
    {
      // Seen only once it is held: who has waited for it may release it.
      absl::MutexLock lock(&mu_);
      seen_.push_back(LookAt(method, context));
      seen_.back().text = request->text();
      hold = hold && !released_;
      if (hold) held_.push_back(call);
    }
    if (!hold) call->Finish(reaction.status);
    return call;
  }

  Reaction NextReaction(const std::string& text) {
    absl::MutexLock lock(&mu_);
    const auto own = scripts_.find(text);
    Script& script = own == scripts_.end() ? script_ : own->second;
    return script
        .reactions[std::min(script.next++, script.reactions.size() - 1)];
  }

  // True if it was held: then whoever forgets it must finish it.
  bool Forget(HeldCall* call) {
    absl::MutexLock lock(&mu_);
    const auto found = std::find(held_.begin(), held_.end(), call);
    if (found == held_.end()) return false;
    held_.erase(found);
    ++cancelled_;
    return true;
  }

  mutable absl::Mutex mu_;
  Script script_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Script> scripts_ ABSL_GUARDED_BY(mu_);
  std::vector<SeenCall> seen_ ABSL_GUARDED_BY(mu_);
  std::vector<HeldCall*> held_ ABSL_GUARDED_BY(mu_);
  int cancelled_ ABSL_GUARDED_BY(mu_) = 0;
  bool released_ ABSL_GUARDED_BY(mu_) = false;
};

ScriptedServer::ScriptedServer(
    std::vector<Reaction> script,
    const std::shared_ptr<grpc::ServerCredentials>& credentials, int port)
    : service_(std::make_unique<Service>(std::move(script))) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), credentials,
                           &port_);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) Die("the test's server does not start");
}

ScriptedServer::~ScriptedServer() { Shutdown(); }

std::string ScriptedServer::address() const {
  return absl::StrCat("127.0.0.1:", port_);
}

void ScriptedServer::SetScript(std::vector<Reaction> script) {
  service_->SetScript(std::move(script));
}

void ScriptedServer::SetScriptFor(const std::string& text,
                                  std::vector<Reaction> script) {
  service_->SetScriptFor(text, std::move(script));
}

std::vector<SeenCall> ScriptedServer::seen() const { return service_->seen(); }

std::vector<SeenCall> ScriptedServer::seen(const std::string& text) const {
  std::vector<SeenCall> matching;
  for (SeenCall& call : service_->seen()) {
    if (call.text == text) matching.push_back(std::move(call));
  }
  return matching;
}

int ScriptedServer::calls() const {
  return static_cast<int>(service_->seen().size());
}

bool ScriptedServer::AwaitCalls(int count, absl::Duration timeout) const {
  return service_->AwaitCalls(count, timeout);
}

bool ScriptedServer::AwaitCancelled(int count, absl::Duration timeout) const {
  return service_->AwaitCancelled(count, timeout);
}

void ScriptedServer::Release() { service_->Release(std::nullopt); }

void ScriptedServer::Release(const std::string& text) {
  service_->Release(text);
}

void ScriptedServer::Shutdown() {
  if (server_ == nullptr) return;
  Release();
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_ = nullptr;
}

// Bound, so that nobody else gets the port, but not listening. gRPC servers
// bind with SO_REUSEPORT too, and so can share it.
ClosedPort::ClosedPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
  if (socket_ < 0) Die("socket");
  const int on = 1;
  if (setsockopt(socket_, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0) {
    Die("SO_REUSEPORT");
  }
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  if (bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    Die("bind");
  }
  port_ = ntohs(address.sin_port);
}

ClosedPort::~ClosedPort() { close(socket_); }

std::string ClosedPort::address() const {
  return absl::StrCat("127.0.0.1:", port_);
}

class RawServer::Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(std::vector<RawReaction> script)
      : script_(std::move(script)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* /*context*/) override {
    absl::MutexLock lock(&mu_);
    const int index = calls_++;
    return new Reactor(script_[std::min<size_t>(index, script_.size() - 1)]);
  }

  int calls() const {
    absl::MutexLock lock(&mu_);
    return calls_;
  }

 private:
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Reactor(RawReaction reaction) : reaction_(std::move(reaction)) {
      StartRead(&request_);
    }
    void OnReadDone(bool /*ok*/) override { WriteNext(); }
    void OnWriteDone(bool ok) override {
      if (ok) {
        WriteNext();
      } else {
        Finish(grpc::Status::CANCELLED);
      }
    }
    void OnDone() override { delete this; }

   private:
    void WriteNext() {
      if (next_ == reaction_.messages.size()) {
        Finish(reaction_.status);
        return;
      }
      const grpc::Slice slice(reaction_.messages[next_++]);
      message_ = grpc::ByteBuffer(&slice, 1);
      StartWrite(&message_);
    }

    const RawReaction reaction_;
    size_t next_ = 0;
    grpc::ByteBuffer request_;
    grpc::ByteBuffer message_;
  };

  const std::vector<RawReaction> script_;
  mutable absl::Mutex mu_;
  int calls_ ABSL_GUARDED_BY(mu_) = 0;
};

RawServer::RawServer(std::vector<RawReaction> script)
    : service_(std::make_unique<Service>(std::move(script))) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterCallbackGenericService(service_.get());
  server_ = builder.BuildAndStart();
}

RawServer::~RawServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

std::string RawServer::address() const {
  return absl::StrCat("127.0.0.1:", port_);
}

int RawServer::calls() const { return service_->calls(); }

}  // namespace retry_guard::end2end
