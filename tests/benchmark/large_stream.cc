#include "tests/benchmark/large_stream.h"

#include <grpcpp/grpcpp.h>
#include <malloc.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "retry_guard/testing/echo.grpc.pb.h"
#include "tests/benchmark/cpu_time.h"
#include "tests/benchmark/median.h"
#include "tests/benchmark/proc_status.h"
#include "tests/benchmark/variants.h"

namespace retry_guard::benchmarks {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;
using Stub = EchoService::Stub;

constexpr int kMessages = 1024;
constexpr size_t kMessageBytes = size_t{1} << 20;

void Require(const grpc::Status& status, int messages) {
  if (status.ok() && messages == kMessages) return;
  std::fprintf(stderr, "a stream failed after %d messages: %d %s\n", messages,
               status.error_code(), status.error_message().c_str());
  std::abort();
}

EchoRequest LargeRequest() {
  EchoRequest request;
  request.set_payload(std::string(kMessageBytes, 'x'));
  return request;
}

void UploadBlocking(Stub& stub) {
  const EchoRequest request = LargeRequest();
  grpc::ClientContext context;
  EchoReply reply;
  const auto writer = stub.ClientStream(&context, &reply);
  int messages = 0;
  while (messages < kMessages && writer->Write(request)) ++messages;
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  Require(status, reply.text() == absl::StrCat(messages) ? messages : -1);
}

void DownloadBlocking(Stub& stub) {
  EchoRequest request = LargeRequest();
  request.set_text(absl::StrCat(kMessages));
  grpc::ClientContext context;
  EchoReply reply;
  const auto reader = stub.ServerStream(&context, request);
  int messages = 0;
  while (reader->Read(&reply)) ++messages;
  Require(reader->Finish(), messages);
}

void UploadByReactor(Stub& stub) {
  class Writer final : public grpc::ClientWriteReactor<EchoRequest> {
   public:
    explicit Writer(Stub& stub) {
      stub.async()->ClientStream(&context_, &reply_, this);
      StartWrite(&request_);
      StartCall();
    }
    void OnWriteDone(bool ok) override {
      if (!ok) return;
      if (++messages_ < kMessages) {
        StartWrite(&request_);
      } else {
        StartWritesDone();
      }
    }
    void OnDone(const grpc::Status& status) override {
      Require(status,
              reply_.text() == absl::StrCat(messages_) ? messages_ : -1);
      done_.Notify();
    }
    void Wait() { done_.WaitForNotification(); }

   private:
    const EchoRequest request_ = LargeRequest();
    grpc::ClientContext context_;
    EchoReply reply_;
    int messages_ = 0;
    absl::Notification done_;
  };
  Writer(stub).Wait();
}

void DownloadByReactor(Stub& stub) {
  class Reader final : public grpc::ClientReadReactor<EchoReply> {
   public:
    explicit Reader(Stub& stub) {
      request_.set_text(absl::StrCat(kMessages));
      stub.async()->ServerStream(&context_, &request_, this);
      StartRead(&reply_);
      StartCall();
    }
    void OnReadDone(bool ok) override {
      if (!ok) return;
      ++messages_;
      StartRead(&reply_);
    }
    void OnDone(const grpc::Status& status) override {
      Require(status, messages_);
      done_.Notify();
    }
    void Wait() { done_.WaitForNotification(); }

   private:
    EchoRequest request_ = LargeRequest();
    grpc::ClientContext context_;
    EchoReply reply_;
    int messages_ = 0;
    absl::Notification done_;
  };
  Reader(stub).Wait();
}

void ForgetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }

// Of all rounds of one variant.
struct Results {
  std::vector<double> mib_per_second;
  std::vector<double> cpu_ms;
  std::vector<double> peak_mib;
};

void Measure(Variant variant, const std::string& address, void (*stream)(Stub&),
             Results* results) {
  const auto channel = MakeChannel(variant, address);
  const auto stub = EchoService::NewStub(channel);
  channel->WaitForConnected(std::chrono::system_clock::now() +
                            std::chrono::seconds(20));
  malloc_trim(0);
  ForgetPeak();
  const int64_t before = ProcStatus("VmRSS:");
  const auto start = std::chrono::steady_clock::now();
  const double cpu_before = CpuMicros();
  stream(*stub);
  results->cpu_ms.push_back((CpuMicros() - cpu_before) / 1000);
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  results->mib_per_second.push_back(kMessages / taken.count());
  results->peak_mib.push_back(
      static_cast<double>(ProcStatus("VmHWM:") - before) / 1024);  // from KiB
}

}  // namespace

void PrintLargeStreamTable(const std::string& address, const std::string& only,
                           int rounds, std::ostream& out) {
  struct Kind {
    const char* name;
    void (*stream)(Stub&);
  };
  constexpr Kind kKinds[] = {{"upload, blocking", UploadBlocking},
                             {"download, blocking", DownloadBlocking},
                             {"upload, reactor", UploadByReactor},
                             {"download, reactor", DownloadByReactor}};
  constexpr std::array<Variant, 3> kCompared = {
      Variant::kBare, Variant::kNative, Variant::kGuard};
  out << "\n1 GiB in messages of 1 MiB            MiB/s     CPU ms   peak "
         "MiB\n";
  for (const Kind& kind : kKinds) {
    if (!std::regex_search(kind.name, std::regex(only))) continue;
    std::array<Results, kCompared.size()> results;
    for (int round = 0; round < rounds; ++round) {
      // Whoever comes first finds the processors idle: each does, in turn.
      for (size_t turn = 0; turn < kCompared.size(); ++turn) {
        const size_t i = (turn + round) % kCompared.size();
        Measure(kCompared[i], address, kind.stream, &results[i]);
      }
    }
    for (size_t i = 0; i < kCompared.size(); ++i) {
      out << absl::StreamFormat(
                 "%-20s %-12s %9.0f  %9.0f  %9.1f\n", kind.name,
                 Name(kCompared[i]), Median(results[i].mib_per_second),
                 Median(results[i].cpu_ms), Median(results[i].peak_mib))
          << std::flush;
    }
  }
}

}  // namespace retry_guard::benchmarks
