#include "tests/end2end/middle_server.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "retry_guard/testing/echo.grpc.pb.h"

namespace retry_guard::end2end {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;

// What the kinds have in common for the server.
class MiddleServer::Service {
 public:
  virtual ~Service() = default;
  virtual void AddTo(grpc::ServerBuilder* builder) = 0;
  virtual void Start() {}
  virtual void End() {}
};

class MiddleServer::Sync final : public Service, EchoService::Service {
 public:
  explicit Sync(MiddleHandler handler) : handler_(std::move(handler)) {}

  void AddTo(grpc::ServerBuilder* builder) override {
    builder->RegisterService(this);
  }

 private:
  grpc::Status Unary(grpc::ServerContext* context,
                     const EchoRequest* /*unused*/,
                     EchoReply* /*reply*/) override {
    return handler_(context, grpc::ClientContext::FromServerContext(*context));
  }

  const MiddleHandler handler_;
};

class MiddleServer::Callback final : public Service,
                                     EchoService::CallbackService {
 public:
  explicit Callback(MiddleHandler handler) : handler_(std::move(handler)) {}

  void AddTo(grpc::ServerBuilder* builder) override {
    builder->RegisterService(this);
  }

  void End() override {
    absl::MutexLock lock(&mu_);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  grpc::ServerUnaryReactor* Unary(grpc::CallbackServerContext* context,
                                  const EchoRequest* /*request*/,
                                  EchoReply* /*reply*/) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    absl::MutexLock lock(&mu_);
    threads_.emplace_back([this, context, reactor] {
      auto from_server =
          grpc::ClientContext::FromCallbackServerContext(*context);
      reactor->Finish(handler_(context, std::move(from_server)));
    });
    return reactor;
  }

  const MiddleHandler handler_;
  absl::Mutex mu_;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
};

class MiddleServer::Queue final
    : public Service,
      EchoService::WithAsyncMethod_Unary<EchoService::Service> {
 public:
  explicit Queue(MiddleHandler handler) : handler_(std::move(handler)) {}

  void AddTo(grpc::ServerBuilder* builder) override {
    builder->RegisterService(this);
    queue_ = builder->AddCompletionQueue();
  }

  void Start() override {
    Accept();
    poller_ = std::thread([this] { Poll(); });
  }

  void End() override {
    {
      // Of a handler that has not answered yet the queue knows nothing.
      absl::MutexLock lock(&mu_);
      const auto answered = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
        return handlers_ == 0;
      };
      mu_.Await(absl::Condition(&answered));
    }
    queue_->Shutdown();
    poller_.join();
  }

 private:
  struct Call {
    grpc::ServerContext context;
    EchoRequest request;
    grpc::ServerAsyncResponseWriter<EchoReply> writer{&context};
    std::thread handler;
  };

  void Accept() {
    auto* const call = new Call;
    RequestUnary(&call->context, &call->request, &call->writer, queue_.get(),
                 queue_.get(), call);
  }

  void Poll() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
      auto* const call = static_cast<Call*>(tag);
      if (call->handler.joinable()) {  // it is finished
        call->handler.join();
        delete call;
      } else if (!ok) {  // nobody called
        delete call;
      } else {
        Accept();
        absl::MutexLock lock(&mu_);
        ++handlers_;
        call->handler = std::thread([this, call] {
          const grpc::Status status =
              handler_(&call->context,
                       grpc::ClientContext::FromServerContext(call->context));
          call->writer.Finish(EchoReply(), status, call);
          absl::MutexLock lock(&mu_);
          --handlers_;
        });
      }
    }
  }

  const MiddleHandler handler_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::thread poller_;
  absl::Mutex mu_;
  int handlers_ ABSL_GUARDED_BY(mu_) = 0;  // that have not answered
};

std::vector<ServerKind> AllServerKinds() {
  return {ServerKind::kSync, ServerKind::kCallback, ServerKind::kQueue};
}

std::string ServerKindName(ServerKind kind) {
  switch (kind) {
    case ServerKind::kSync:
      return "Sync";
    case ServerKind::kCallback:
      return "Callback";
    case ServerKind::kQueue:
      return "Queue";
  }
  return "";
}

MiddleServer::MiddleServer(ServerKind kind, MiddleHandler handler,
                           std::optional<Inbound> interceptor) {
  switch (kind) {
    case ServerKind::kSync:
      service_ = std::make_unique<Sync>(std::move(handler));
      break;
    case ServerKind::kCallback:
      service_ = std::make_unique<Callback>(std::move(handler));
      break;
    case ServerKind::kQueue:
      service_ = std::make_unique<Queue>(std::move(handler));
      break;
  }
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port_);
  service_->AddTo(&builder);
  if (interceptor.has_value()) {
    std::vector<
        std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
        creators;
    creators.push_back(CreateServerInterceptorFactory(*interceptor));
    builder.experimental().SetInterceptorCreators(std::move(creators));
  }
  server_ = builder.BuildAndStart();
  service_->Start();
}

MiddleServer::~MiddleServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  service_->End();
  server_->Wait();
}

std::shared_ptr<grpc::Channel> MiddleServer::BareChannelTo() const {
  return grpc::CreateChannel(absl::StrCat("127.0.0.1:", port_),
                             grpc::InsecureChannelCredentials());
}

}  // namespace retry_guard::end2end
