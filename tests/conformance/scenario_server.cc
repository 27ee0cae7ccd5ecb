#include "tests/conformance/scenario_server.h"

#include <grpcpp/generic/async_generic_service.h>

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "retry_guard/testing/echo.pb.h"

namespace retry_guard::conformance {
namespace {

grpc::ByteBuffer ReplyBytes(int number) {
  testing::EchoReply reply;
  reply.set_text(absl::StrCat("attempt ", number));
  const grpc::Slice slice(reply.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// One attempt: reads the request whole, then does as it is told.
class Answer final : public grpc::ServerGenericBidiReactor {
 public:
  Answer(Reply reply, int number)
      : reply_(std::move(reply)),
        message_(ReplyBytes(number)),
        left_(std::max(reply_.messages, reply_.status == 0 ? 1 : 0)) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      StartRead(&request_);
    } else if (reply_.hold) {
      Hold();
    } else if (reply_.headers) {
      StartSendInitialMetadata();
    } else {
      Go();
    }
  }

  void OnSendInitialMetadataDone(bool /*ok*/) override { Go(); }
  void OnWriteDone(bool /*ok*/) override { Go(); }

  // The client is gone, or the server shuts down.
  void OnCancel() override {
    absl::MutexLock lock(&mu_);
    cancelled_ = true;
    if (held_) Finish(grpc::Status::CANCELLED);
  }

  void OnDone() override { delete this; }

 private:
  void Hold() {
    absl::MutexLock lock(&mu_);
    held_ = true;
    if (cancelled_) Finish(grpc::Status::CANCELLED);
  }

  void Go() {
    if (left_-- > 0) {
      StartWrite(&message_);
      return;
    }
    Finish(grpc::Status(static_cast<grpc::StatusCode>(reply_.status),
                        reply_.message, reply_.details));
  }

  const Reply reply_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer message_;
  int left_;
  absl::Mutex mu_;
  bool held_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

class ScenarioServer::Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(std::vector<Reply> script) : script_(std::move(script)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    SeenAttempt seen;
    for (const auto& [key, value] : context->client_metadata()) {
      seen.metadata.emplace(std::string(key.data(), key.size()),
                            std::string(value.data(), value.size()));
    }
    absl::MutexLock lock(&mu_);
    const size_t index = std::min(seen_.size(), script_.size() - 1);
    seen_.push_back(std::move(seen));
    const Reply& reply = script_[index];
    if (reply.headers) context->AddInitialMetadata("conformance", "headers");
    for (const auto& [key, value] : reply.trailers) {
      context->AddTrailingMetadata(key, value);
    }
    return new Answer(reply, static_cast<int>(seen_.size()));
  }

  std::vector<SeenAttempt> seen() const {
    absl::MutexLock lock(&mu_);
    return seen_;
  }

 private:
  const std::vector<Reply> script_;
  mutable absl::Mutex mu_;
  std::vector<SeenAttempt> seen_ ABSL_GUARDED_BY(mu_);
};

ScenarioServer::ScenarioServer(std::vector<Reply> script, int port)
    : service_(std::make_unique<Service>(std::move(script))) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port),
                           grpc::InsecureServerCredentials(), &port_);
  builder.RegisterCallbackGenericService(service_.get());
  server_ = builder.BuildAndStart();
}

ScenarioServer::~ScenarioServer() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

std::vector<SeenAttempt> ScenarioServer::seen() const {
  return service_->seen();
}

}  // namespace retry_guard::conformance
