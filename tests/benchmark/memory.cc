#include "tests/benchmark/memory.h"

#include <grpcpp/grpcpp.h>
#include <malloc.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "retry_guard/guard.h"
#include "retry_guard/testing/echo.grpc.pb.h"
#include "tests/benchmark/proc_status.h"
#include "tests/benchmark/variants.h"

namespace retry_guard::benchmarks {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;

constexpr int kCalls = 10000;
constexpr int kGuards = 100;

int64_t InUse() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

// Core works on other threads, too: what is in use once it has not changed for
// a second.
int64_t InUseAtRest() {
  int64_t before = InUse();
  for (absl::Time since = absl::Now();
       absl::Now() - since < absl::Seconds(1);) {
    absl::SleepFor(absl::Milliseconds(20));
    const int64_t now = InUse();
    if (now != before) since = absl::Now();
    before = now;
  }
  return before;
}

int64_t Threads() { return ProcStatus("Threads:"); }

// Holds calls of one method open, all at once, on a queue that is polled.
class OpenCalls {
 public:
  OpenCalls(const std::shared_ptr<grpc::Channel>& channel, bool fails)
      : stub_(EchoService::NewStub(channel)),
        fails_(fails),
        poller_([this] { Poll(); }) {}

  ~OpenCalls() {
    for (const auto& call : calls_) call->context.TryCancel();
    queue_.Shutdown();
    poller_.join();
  }

  void Start(int count) {
    const EchoRequest request;
    calls_.reserve(calls_.size() + static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      auto& call = *calls_.emplace_back(std::make_unique<Call>());
      call.reader =
          fails_ ? stub_->AsyncIdempotent(&call.context, request, &queue_)
                 : stub_->AsyncReadOnly(&call.context, request, &queue_);
      call.reader->Finish(&call.reply, &call.status, &call);
    }
  }

 private:
  struct Call {
    grpc::ClientContext context;
    EchoReply reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<EchoReply>> reader;
  };

  void Poll() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  const std::unique_ptr<EchoService::Stub> stub_;
  const bool fails_;
  std::vector<std::unique_ptr<Call>> calls_;
  grpc::CompletionQueue queue_;
  std::thread poller_;
};

void PrintCalls(Variant variant, bool in_backoff, const std::string& address,
                std::ostream& out) {
  const auto channel = MakeChannel(variant, address, Purpose::kHoldsCalls);
  OpenCalls calls(channel, in_backoff);
  calls.Start(100);  // connects, and fills the pools
  const int64_t before = InUseAtRest();
  const int64_t threads = Threads();
  calls.Start(kCalls);
  const int64_t taken = InUseAtRest() - before;
  out << absl::StreamFormat(
      "%-12s %-10s %8.0f bytes per call, %d threads more\n", Name(variant),
      in_backoff ? "in backoff" : "in flight",
      static_cast<double>(taken) / kCalls, Threads() - threads);
}

}  // namespace

void PrintMemoryTable(const std::string& address, std::ostream& out) {
  {
    std::vector<std::shared_ptr<Guard>> guards;
    guards.reserve(kGuards);
    const int64_t before = InUse();
    for (int i = 0; i < kGuards; ++i) guards.push_back(Guard::Create());
    out << absl::StreamFormat("%-23s %8.0f bytes\n", "an idle guard",
                              static_cast<double>(InUse() - before) / kGuards);
  }
  for (const Variant variant :
       {Variant::kBare, Variant::kInterceptor, Variant::kGuard}) {
    PrintCalls(variant, /*in_backoff=*/false, address, out);
  }
  for (const Variant variant : {Variant::kNative, Variant::kGuard}) {
    PrintCalls(variant, /*in_backoff=*/true, address, out);
  }
}

}  // namespace retry_guard::benchmarks
