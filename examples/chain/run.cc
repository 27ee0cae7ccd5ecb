#include "run.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "downstream.h"
#include "grpcpp/grpcpp.h"
#include "layer_process.h"
#include "retry_guard/examples/chain.grpc.pb.h"

namespace chain {
namespace {

namespace pb = ::retry_guard::examples;

// A user's request, sent on by the frontend: the outermost client of the chain.
void SendUserRequest(const Downstream& gateway) {
  const absl::Time deadline = absl::Now() + kUserTimeout;
  const grpc::Status status = gateway.Call(kUserTimeout, [deadline] {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(absl::ToChronoTime(deadline));
    return context;
  });
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) {
    throw std::runtime_error(absl::StrCat("the chain answered ",
                                          status.error_code(), ": ",
                                          status.error_message()));
  }
}

LayerReport AskForReport(int index, const std::string& address) {
  const auto stub = pb::Layer::NewStub(PlainChannel(address));
  grpc::ClientContext context;
  pb::ReportReply reply;
  const grpc::Status status = stub->Report(&context, {}, &reply);
  if (!status.ok()) throw std::runtime_error(status.error_message());
  LayerReport report{std::string(kLayers[index]), {}};
  for (const pb::Arrival& arrival : reply.arrivals()) {
    report.arrivals.push_back(
        {absl::Microseconds(arrival.context_remaining_us()),
         absl::Microseconds(arrival.effective_remaining_us()),
         absl::Microseconds(arrival.caller_remaining_us()), arrival.owner()});
  }
  return report;
}

}  // namespace

ModeRun RunMode(Mode mode, int layers, int user_requests) {
  // From the bottom up, since each is told where the one below it is.
  std::vector<std::unique_ptr<LayerProcess>> processes;
  for (int index = layers - 1; index >= 0; --index) {
    processes.push_back(std::make_unique<LayerProcess>(
        mode, index, processes.empty() ? "" : processes.back()->address()));
  }
  std::reverse(processes.begin(), processes.end());

  ModeRun run;
  run.mode = mode;
  run.user_requests = user_requests;
  {
    const Downstream gateway(mode, std::string(kFrontend),
                             processes.front()->address());
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < user_requests; ++i) SendUserRequest(gateway);
    run.took = absl::FromChrono(std::chrono::steady_clock::now() - start);
  }
  for (int index = 0; index < layers; ++index) {
    run.layers.push_back(AskForReport(index, processes[index]->address()));
  }
  return run;
}

}  // namespace chain
