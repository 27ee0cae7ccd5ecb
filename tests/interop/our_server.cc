#include "tests/interop/our_server.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "retry_guard/server.h"

namespace retry_guard::interop {

OurServer::Service::Service(Handler handler) : handler_(std::move(handler)) {}

grpc::Status OurServer::Service::Unary(
    grpc::ServerContext* context,
    const retry_guard::testing::EchoRequest* request,
    retry_guard::testing::EchoReply* reply) {
  int n;
  {
    absl::MutexLock lock(&mu_);
    n = static_cast<int>(arrivals_.size());
    arrivals_.push_back(absl::Now());
  }
  reply->set_text(request->text());
  return handler_(n, context);
}

std::vector<absl::Time> OurServer::Service::arrivals() const {
  absl::MutexLock lock(&mu_);
  return arrivals_;
}

OurServer::OurServer(Handler handler) : service_(std::move(handler)) {
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      creators;
  creators.push_back(CreateServerInterceptorFactory());
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service_);
  builder.experimental().SetInterceptorCreators(std::move(creators));
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) std::abort();
  address_ = absl::StrCat("127.0.0.1:", port);
}

OurServer::~OurServer() { server_->Shutdown(std::chrono::system_clock::now()); }

std::vector<absl::Time> OurServer::arrivals() const {
  return service_.arrivals();
}

absl::Duration OurServer::GapAfter(int n) const {
  const std::vector<absl::Time> times = arrivals();
  return times.at(n + 1) - times.at(n);
}

}  // namespace retry_guard::interop
