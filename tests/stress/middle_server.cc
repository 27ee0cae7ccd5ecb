#include "tests/stress/middle_server.h"

#include <chrono>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "retry_guard/server.h"
#include "retry_guard/testing/echo.grpc.pb.h"

namespace retry_guard::stress {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;

// What the inbound call's client and its handler share.
struct Errand {
  std::atomic<bool> taken{false};  // by whoever comes first
  absl::Notification done;
  Result result;
};

}  // namespace

class MiddleServer::Service final : public EchoService::Service {
 public:
  Service(Ledger* ledger, MakeCall make_call)
      : ledger_(ledger), make_call_(std::move(make_call)) {}

  std::shared_ptr<Errand> Expect(uint64_t id) {
    absl::MutexLock lock(&mu_);
    return errands_[id] = std::make_shared<Errand>();
  }
  void Forget(uint64_t id) {
    absl::MutexLock lock(&mu_);
    errands_.erase(id);
  }

  grpc::Status Unary(grpc::ServerContext* context, const EchoRequest* request,
                     EchoReply* /*reply*/) override {
    uint64_t id = 0;
    (void)absl::SimpleAtoi(request->text(), &id);
    std::shared_ptr<Errand> errand;
    {
      absl::MutexLock lock(&mu_);
      const auto found = errands_.find(id);
      if (found != errands_.end()) errand = found->second;
    }
    if (errand == nullptr || errand->taken.exchange(true)) {
      return grpc::Status::CANCELLED;
    }
    const std::shared_ptr<Record> record = ledger_->Find(id);
    errand->result = make_call_(*record, context);
    const grpc::Status status = errand->result.status;
    errand->done.Notify();
    return status;
  }

 private:
  Ledger* const ledger_;
  const MakeCall make_call_;
  absl::Mutex mu_;
  std::unordered_map<uint64_t, std::shared_ptr<Errand>> errands_
      ABSL_GUARDED_BY(mu_);
};

MiddleServer::MiddleServer(Ledger* ledger, MakeCall make_call)
    : service_(std::make_unique<Service>(ledger, std::move(make_call))) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(service_.get());
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      creators;
  creators.push_back(CreateServerInterceptorFactory());
  builder.experimental().SetInterceptorCreators(std::move(creators));
  server_ = builder.BuildAndStart();
  channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", port),
                                 grpc::InsecureChannelCredentials());
}

MiddleServer::~MiddleServer() {
  server_->Shutdown();
  server_->Wait();
}

std::optional<Result> MiddleServer::Relay(Record& record) {
  const Plan& plan = record.plan();
  const std::shared_ptr<Errand> errand = service_->Expect(plan.id);
  grpc::ClientContext context;
  if (plan.deadline.has_value()) {
    context.set_deadline(std::chrono::system_clock::now() +
                         absl::ToChronoMicroseconds(*plan.deadline));
  }
  if (plan.owned_above) MarkOwned(&context, "chaos");
  record.Attach(&context);
  EchoRequest request;
  request.set_text(absl::StrCat(plan.id));
  EchoReply reply;
  // How that ends says nothing: the handler's call is what is looked at.
  (void)EchoService::NewStub(channel_)->Unary(&context, request, &reply);
  record.Detach();
  service_->Forget(plan.id);
  if (!errand->taken.exchange(true)) return std::nullopt;
  errand->done.WaitForNotification();
  return std::move(errand->result);
}

}  // namespace retry_guard::stress
