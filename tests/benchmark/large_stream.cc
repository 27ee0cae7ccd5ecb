#include "tests/benchmark/large_stream.h"

#include <grpcpp/grpcpp.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "retry_guard/testing/echo.grpc.pb.h"
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

// In KiB, of this process; 0 where the system does not say.
int64_t FromProcStatus(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != key) continue;
    int64_t kib = 0;
    status >> kib;
    return kib;
  }
  return 0;
}

void ForgetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }

struct Result {
  double mib_per_second = 0;
  double peak_mib = 0;
};

Result Measure(Variant variant, const std::string& address,
               void (*stream)(Stub&)) {
  const auto channel = MakeChannel(variant, address);
  const auto stub = EchoService::NewStub(channel);
  channel->WaitForConnected(std::chrono::system_clock::now() +
                            std::chrono::seconds(20));
  malloc_trim(0);
  ForgetPeak();
  const int64_t before = FromProcStatus("VmRSS:");
  const auto start = std::chrono::steady_clock::now();
  stream(*stub);
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  return {kMessages / taken.count(),
          static_cast<double>(FromProcStatus("VmHWM:") - before) / 1024};
}

double Median(std::vector<Result>& results, double Result::*field) {
  const auto middle =
      results.begin() + static_cast<std::ptrdiff_t>(results.size() / 2);
  std::nth_element(
      results.begin(), middle, results.end(),
      [&](const Result& a, const Result& b) { return a.*field < b.*field; });
  return (*middle).*field;
}

}  // namespace

void PrintLargeStreamTable(const std::string& address, int rounds,
                           std::ostream& out) {
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
  out << "\n1 GiB in messages of 1 MiB            MiB/s   peak MiB\n";
  for (const Kind& kind : kKinds) {
    std::array<std::vector<Result>, kCompared.size()> results;
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < kCompared.size(); ++i) {
        results[i].push_back(Measure(kCompared[i], address, kind.stream));
      }
    }
    for (size_t i = 0; i < kCompared.size(); ++i) {
      out << absl::StreamFormat("%-20s %-12s %9.0f  %9.1f\n", kind.name,
                                Name(kCompared[i]),
                                Median(results[i], &Result::mib_per_second),
                                Median(results[i], &Result::peak_mib))
          << std::flush;
    }
  }
}

}  // namespace retry_guard::benchmarks
