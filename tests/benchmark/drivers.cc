#include "tests/benchmark/drivers.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "retry_guard/testing/echo.grpc.pb.h"

namespace retry_guard::benchmarks {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;
using Clock = std::chrono::steady_clock;

EchoRequest MakeRequest(const Load& load) {
  EchoRequest request;
  request.set_payload(
      std::string(static_cast<size_t>(load.message_bytes), 'x'));
  if (load.messages > 0) request.set_text(absl::StrCat(load.messages));
  return request;
}

// As every call should have one.
void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::seconds(20));
}

float MicrosSince(Clock::time_point start) {
  return std::chrono::duration<float, std::micro>(Clock::now() - start).count();
}

void Require(const grpc::Status& status, bool right_reply) {
  if (status.ok() && right_reply) return;
  std::fprintf(stderr, "a call failed: %d %s\n", status.error_code(),
               status.error_message().c_str());
  std::abort();
}

// The loop that users write: full jitter, and the deadline of the whole call.
grpc::Status CallInLoop(EchoService::Stub& stub, const EchoRequest& request,
                        EchoReply* reply) {
  thread_local std::mt19937 random{std::random_device{}()};
  const auto deadline =
      std::chrono::system_clock::now() + std::chrono::seconds(20);
  double ceiling_ms = 100;
  for (int attempt = 1;; ++attempt) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    grpc::Status status = stub.Unary(&context, request, reply);
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE || attempt == 3) {
      return status;
    }
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(
        std::uniform_real_distribution<>(0, ceiling_ms)(random)));
    ceiling_ms = std::min(ceiling_ms * 2, 1000.0);
  }
}

class SyncDriver final : public Driver {
 public:
  SyncDriver(Variant variant, const std::shared_ptr<grpc::Channel>& channel,
             const Load& load)
      : loop_(variant == Variant::kLoop),
        load_(load),
        request_(MakeRequest(load)),
        stub_(EchoService::NewStub(channel)) {}

  void Run(int calls, std::vector<float>* micros) override {
    if (load_.outstanding == 1) {
      RunOne(calls, micros);
      return;
    }
    std::vector<std::vector<float>> each(
        static_cast<size_t>(load_.outstanding));
    std::vector<std::thread> threads;
    threads.reserve(each.size());
    for (std::vector<float>& mine : each) {
      threads.emplace_back([&] { RunOne(calls / load_.outstanding, &mine); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<float>& mine : each) {
      micros->insert(micros->end(), mine.begin(), mine.end());
    }
  }

 private:
  void RunOne(int calls, std::vector<float>* micros) {
    EchoReply reply;
    for (int i = 0; i < calls; ++i) {
      const auto start = Clock::now();
      if (load_.messages > 0) {
        Stream(&reply);
      } else {
        const grpc::Status status =
            loop_ ? CallInLoop(*stub_, request_, &reply) : Once(&reply);
        Require(status, reply.payload().size() == request_.payload().size());
      }
      micros->push_back(MicrosSince(start));
    }
  }

  grpc::Status Once(EchoReply* reply) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return stub_->Unary(&context, request_, reply);
  }

  void Stream(EchoReply* reply) {
    grpc::ClientContext context;
    SetDeadline(&context);
    const auto reader = stub_->ServerStream(&context, request_);
    int messages = 0;
    while (reader->Read(reply)) ++messages;
    Require(reader->Finish(), messages == load_.messages);
  }

  const bool loop_;
  const Load load_;
  const EchoRequest request_;
  const std::unique_ptr<EchoService::Stub> stub_;
};

// One thread that starts calls and takes their tags.
class QueueDriver final : public Driver {
 public:
  QueueDriver(const std::shared_ptr<grpc::Channel>& channel, const Load& load)
      : load_(load),
        request_(MakeRequest(load)),
        stub_(EchoService::NewStub(channel)) {}

  ~QueueDriver() override {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  void Run(int calls, std::vector<float>* micros) override {
    int started = 0;
    for (; started < std::min(calls, load_.outstanding); ++started) Start();
    for (int ended = 0; ended < calls;) {
      void* tag = nullptr;
      bool ok = false;
      if (!queue_.Next(&tag, &ok)) std::abort();
      Call* const call = static_cast<Call*>(tag);
      if (load_.messages > 0 && !StreamStep(call, ok)) continue;
      Require(call->status,
              load_.messages > 0 ||
                  call->reply.payload().size() == request_.payload().size());
      micros->push_back(MicrosSince(call->start));
      delete call;
      ++ended;
      if (started < calls) {
        Start();
        ++started;
      }
    }
  }

 private:
  struct Call {
    Clock::time_point start = Clock::now();
    grpc::ClientContext context;
    EchoReply reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<EchoReply>> unary;
    std::unique_ptr<grpc::ClientAsyncReader<EchoReply>> stream;
    int messages = -1;  // the first tag is that of the start
    bool finishing = false;
  };

  void Start() {
    auto* const call = new Call();
    SetDeadline(&call->context);
    if (load_.messages > 0) {
      call->stream =
          stub_->AsyncServerStream(&call->context, request_, &queue_, call);
    } else {
      call->unary = stub_->AsyncUnary(&call->context, request_, &queue_);
      call->unary->Finish(&call->reply, &call->status, call);
    }
  }

  // Whether the call has ended.
  bool StreamStep(Call* call, bool ok) const {
    if (call->finishing) {
      Require(call->status, call->messages == load_.messages);
      return true;
    }
    if (ok) {
      ++call->messages;
      call->stream->Read(&call->reply, call);
    } else {
      call->finishing = true;
      call->stream->Finish(&call->status, call);
    }
    return false;
  }

  const Load load_;
  const EchoRequest request_;
  const std::unique_ptr<EchoService::Stub> stub_;
  grpc::CompletionQueue queue_;
};

// Each call's callback starts the next one.
class CallbackDriver final : public Driver {
 public:
  CallbackDriver(const std::shared_ptr<grpc::Channel>& channel,
                 const Load& load)
      : load_(load),
        request_(MakeRequest(load)),
        stub_(EchoService::NewStub(channel)) {}

  void Run(int calls, std::vector<float>* micros) override {
    absl::BlockingCounter ended(calls);
    {
      absl::MutexLock lock(&mu_);
      left_ = calls;
      ended_ = &ended;
    }
    for (int i = 0; i < std::min(calls, load_.outstanding); ++i) StartNext();
    ended.Wait();
    absl::MutexLock lock(&mu_);
    micros->insert(micros->end(), micros_.begin(), micros_.end());
    micros_.clear();
  }

 private:
  struct UnaryCall {
    Clock::time_point start = Clock::now();
    grpc::ClientContext context;
    EchoReply reply;
  };

  class StreamCall final : public grpc::ClientReadReactor<EchoReply> {
   public:
    explicit StreamCall(CallbackDriver* driver) : driver_(driver) {
      SetDeadline(&context_);
      driver->stub_->async()->ServerStream(&context_, &driver->request_, this);
      StartRead(&reply_);
      StartCall();
    }
    void OnReadDone(bool ok) override {
      if (!ok) return;
      ++messages_;
      StartRead(&reply_);
    }
    void OnDone(const grpc::Status& status) override {
      Require(status, messages_ == driver_->load_.messages);
      CallbackDriver* const driver = driver_;
      const float micros = MicrosSince(start_);
      delete this;
      driver->Ended(micros);
    }

   private:
    CallbackDriver* const driver_;
    const Clock::time_point start_ = Clock::now();
    grpc::ClientContext context_;
    EchoReply reply_;
    int messages_ = 0;
  };

  void StartNext() {
    {
      absl::MutexLock lock(&mu_);
      if (left_ == 0) return;
      --left_;
    }
    if (load_.messages > 0) {
      new StreamCall(this);
      return;
    }
    auto* const call = new UnaryCall();
    SetDeadline(&call->context);
    stub_->async()->Unary(&call->context, &request_, &call->reply,
                          [this, call](const grpc::Status& status) {
                            Require(status, call->reply.payload().size() ==
                                                request_.payload().size());
                            const float micros = MicrosSince(call->start);
                            delete call;
                            Ended(micros);
                          });
  }

  void Ended(float micros) {
    absl::BlockingCounter* ended = nullptr;
    {
      absl::MutexLock lock(&mu_);
      micros_.push_back(micros);
      ended = ended_;
    }
    StartNext();
    ended->DecrementCount();
  }

  const Load load_;
  const EchoRequest request_;
  const std::unique_ptr<EchoService::Stub> stub_;
  absl::Mutex mu_;
  int left_ ABSL_GUARDED_BY(mu_) = 0;
  absl::BlockingCounter* ended_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::vector<float> micros_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<Driver> MakeDriver(
    Style style, Variant variant, const std::shared_ptr<grpc::Channel>& channel,
    const Load& load) {
  switch (style) {
    case Style::kQueue:
      return std::make_unique<QueueDriver>(channel, load);
    case Style::kCallback:
      return std::make_unique<CallbackDriver>(channel, load);
    case Style::kSync:
      break;
  }
  return std::make_unique<SyncDriver>(variant, channel, load);
}

}  // namespace retry_guard::benchmarks
