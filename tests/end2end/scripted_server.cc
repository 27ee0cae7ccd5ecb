#include "tests/end2end/scripted_server.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;

}  // namespace

class ScriptedServer::Service final : public EchoService::CallbackService {
 public:
  explicit Service(std::vector<Reaction> script) : script_(std::move(script)) {}

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
    script_ = std::move(script);
    seen_.clear();
    cancelled_ = 0;
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

  void Release() {
    std::vector<HeldCall*> held;
    {
      absl::MutexLock lock(&mu_);
      released_ = true;
      held.swap(held_);
    }
    for (HeldCall* const call : held) call->Finish(call->then());
  }

 private:
  // Finishes at once, on Release, or when the client is gone.
  class HeldCall final : public grpc::ServerUnaryReactor {
   public:
    HeldCall(Service* service, grpc::Status then)
        : service_(service), then_(std::move(then)) {}

    const grpc::Status& then() const { return then_; }
    void OnDone() override { delete this; }
    void OnCancel() override {
      if (service_->Forget(this)) Finish(grpc::Status::CANCELLED);
    }

   private:
    Service* const service_;
    const grpc::Status then_;
  };

  grpc::ServerUnaryReactor* React(const std::string& method,
                                  grpc::CallbackServerContext* context,
                                  const EchoRequest* request,
                                  EchoReply* reply) {
    Reaction reaction;
    bool hold = false;
    {
      absl::MutexLock lock(&mu_);
      SeenCall seen;
      seen.method = method;
      seen.text = request->text();
      for (const auto& [key, value] : context->client_metadata()) {
        seen.metadata.emplace(std::string(key.data(), key.size()),
                              std::string(value.data(), value.size()));
      }
      seen.authority =
          context->ExperimentalGetAuthority().data() == nullptr
              ? ""
              : std::string(context->ExperimentalGetAuthority().data(),
                            context->ExperimentalGetAuthority().size());
      seen.deadline = context->deadline();
      seen.at = absl::Now();
      const size_t index = std::min(seen_.size(), script_.size() - 1);
      reaction = script_[index];
      seen_.push_back(std::move(seen));
      hold = reaction.hold && !released_;
    }
    reply->set_text(request->text());
    reply->set_payload(request->payload());
    for (const auto& [key, value] : reaction.initial) {
      context->AddInitialMetadata(key, value);
    }
    for (const auto& [key, value] : reaction.trailing) {
      context->AddTrailingMetadata(key, value);
    }
    auto* const call = new HeldCall(this, reaction.status);
    if (reaction.headers_first) call->StartSendInitialMetadata();
    if (hold) {
      absl::MutexLock lock(&mu_);
      hold = !released_;
      if (hold) held_.push_back(call);
    }
    if (!hold) call->Finish(reaction.status);
    return call;
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
  std::vector<Reaction> script_ ABSL_GUARDED_BY(mu_);
  std::vector<SeenCall> seen_ ABSL_GUARDED_BY(mu_);
  std::vector<HeldCall*> held_ ABSL_GUARDED_BY(mu_);
  int cancelled_ ABSL_GUARDED_BY(mu_) = 0;
  bool released_ ABSL_GUARDED_BY(mu_) = false;
};

ScriptedServer::ScriptedServer(std::vector<Reaction> script)
    : service_(std::make_unique<Service>(std::move(script))) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
}

ScriptedServer::~ScriptedServer() { Shutdown(); }

std::string ScriptedServer::address() const {
  return absl::StrCat("127.0.0.1:", port_);
}

void ScriptedServer::SetScript(std::vector<Reaction> script) {
  service_->SetScript(std::move(script));
}

std::vector<SeenCall> ScriptedServer::seen() const { return service_->seen(); }

int ScriptedServer::calls() const {
  return static_cast<int>(service_->seen().size());
}

bool ScriptedServer::AwaitCalls(int count, absl::Duration timeout) const {
  return service_->AwaitCalls(count, timeout);
}

bool ScriptedServer::AwaitCancelled(int count, absl::Duration timeout) const {
  return service_->AwaitCancelled(count, timeout);
}

void ScriptedServer::Release() { service_->Release(); }

void ScriptedServer::Shutdown() {
  if (server_ == nullptr) return;
  service_->Release();
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_ = nullptr;
}

}  // namespace retry_guard::end2end
