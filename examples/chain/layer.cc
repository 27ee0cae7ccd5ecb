#include "layer.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "downstream.h"
#include "grpcpp/grpcpp.h"
#include "retry_guard/examples/chain.grpc.pb.h"
#include "retry_guard/server.h"

namespace chain {
namespace {

namespace pb = ::retry_guard::examples;

// Keeps what arrives. Thread-safe.
class Log {
 public:
  // Returns how much time the call has left.
  absl::Duration Add(const grpc::ServerContext& inbound,
                     const pb::HandleRequest& request) {
    const absl::Duration by_context =
        absl::FromChrono(inbound.deadline()) - absl::Now();
    const std::optional<retry_guard::RetryMarker> marker =
        retry_guard::ReadInboundMarker(inbound);
    const absl::Duration effective =
        marker.has_value() ? std::min(by_context, marker->remaining)
                           : by_context;
    pb::Arrival arrival;
    arrival.set_context_remaining_us(absl::ToInt64Microseconds(by_context));
    arrival.set_effective_remaining_us(absl::ToInt64Microseconds(effective));
    arrival.set_caller_remaining_us(request.caller_remaining_us());
    if (marker.has_value()) arrival.set_owner(marker->owner);
    std::lock_guard lock(mutex_);
    *arrivals_.add_arrivals() = std::move(arrival);
    return effective;
  }

  pb::ReportReply arrivals() const {
    std::lock_guard lock(mutex_);
    return arrivals_;
  }

 private:
  mutable std::mutex mutex_;
  pb::ReportReply arrivals_;
};

class LayerService final : public pb::Layer::Service {
 public:
  explicit LayerService(const LayerOptions& options)
      : carry_over_(CarryOverOf(options.mode, options.index)) {
    if (options.next.empty()) return;
    next_ = std::make_unique<Downstream>(
        options.mode, std::string(kLayers[options.index]), options.next);
  }

  grpc::Status Handle(grpc::ServerContext* inbound,
                      const pb::HandleRequest* request,
                      pb::HandleReply* /*reply*/) override {
    const absl::Duration remaining = log_.Add(*inbound, *request);
    if (next_ == nullptr) {
      return {grpc::StatusCode::UNAVAILABLE, "the bottom is out of order"};
    }
    return next_->Call(remaining,
                       [this, inbound] { return Outbound(*inbound); });
  }

  grpc::Status Report(grpc::ServerContext* /*context*/,
                      const pb::ReportRequest* /*request*/,
                      pb::ReportReply* reply) override {
    *reply = log_.arrivals();
    return grpc::Status::OK;
  }

 private:
  std::unique_ptr<grpc::ClientContext> Outbound(
      const grpc::ServerContext& inbound) const {
    if (carry_over_ != CarryOver::kContinueFrom) {
      return grpc::ClientContext::FromServerContext(inbound);
    }
    auto outbound = std::make_unique<grpc::ClientContext>();
    retry_guard::ContinueFrom(inbound, outbound.get());
    return outbound;
  }

  const CarryOver carry_over_;
  std::unique_ptr<const Downstream> next_;
  Log log_;
};

}  // namespace

CarryOver CarryOverOf(Mode mode, int layer) {
  if (!UsesRetryGuard(mode)) return CarryOver::kGrpcAlone;
  return layer % 2 == 0 ? CarryOver::kContinueFrom
                        : CarryOver::kServerInterceptor;
}

int RunLayer(const LayerOptions& options) {
  // Not to be left behind when the parent is killed, be it before this line.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != options.parent) return 1;

  LayerService service(options);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service);
  if (CarryOverOf(options.mode, options.index) ==
      CarryOver::kServerInterceptor) {
    std::vector<
        std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
        creators;
    creators.push_back(retry_guard::CreateServerInterceptorFactory());
    builder.experimental().SetInterceptorCreators(std::move(creators));
  }
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return 1;
  std::printf("%d\n", port);
  std::fflush(stdout);
  server->Wait();
  return 0;
}

}  // namespace chain
