#include "tests/end2end/stream_styles.h"

#include <grpcpp/generic/generic_stub.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "retry_guard/testing/echo.grpc.pb.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;

EchoRequest RequestOf(const std::string& text) {
  EchoRequest request;
  request.set_text(text);
  return request;
}

// The end of one operation, told on another thread.
class Outcome {
 public:
  void Tell(bool ok) {
    ok_ = ok;
    told_.Notify();
  }
  bool Await() {
    if (!told_.WaitForNotificationWithTimeout(absl::Minutes(1))) {
      std::fprintf(stderr, "the stream hangs\n");
      std::abort();
    }
    return ok_;
  }

 private:
  bool ok_ = false;
  absl::Notification told_;
};

class SyncStream final : public Stream {
 public:
  SyncStream(const std::shared_ptr<grpc::Channel>& channel,
             grpc::ClientContext* context)
      : stub_(EchoService::NewStub(channel)), stream_(stub_->Bidi(context)) {}

  bool Write(const std::string& text) override {
    return stream_->Write(RequestOf(text));
  }
  void WritesDone() override { stream_->WritesDone(); }
  bool Read(std::string* text) override {
    EchoReply reply;
    if (!stream_->Read(&reply)) return false;
    *text = reply.text();
    return true;
  }
  grpc::Status Finish() override { return stream_->Finish(); }

 private:
  const std::unique_ptr<EchoService::Stub> stub_;
  const std::unique_ptr<grpc::ClientReaderWriter<EchoRequest, EchoReply>>
      stream_;
};

class CallbackStream final
    : public Stream,
      public grpc::ClientBidiReactor<EchoRequest, EchoReply> {
 public:
  CallbackStream(const std::shared_ptr<grpc::Channel>& channel,
                 grpc::ClientContext* context)
      : stub_(EchoService::NewStub(channel)) {
    stub_->async()->Bidi(context, this);
    // What the application does comes from other threads than the callbacks.
    AddHold();
    StartCall();
  }
  ~CallbackStream() override {
    if (!finished_) {
      RemoveHold();
      done_.Await();
    }
  }

  bool Write(const std::string& text) override {
    request_ = RequestOf(text);
    Outcome outcome;
    written_ = &outcome;
    StartWrite(&request_);
    return outcome.Await();
  }
  void WritesDone() override {
    Outcome outcome;
    writes_done_ = &outcome;
    StartWritesDone();
    outcome.Await();
  }
  bool Read(std::string* text) override {
    Outcome outcome;
    read_ = &outcome;
    reply_.Clear();
    StartRead(&reply_);
    if (!outcome.Await()) return false;
    *text = reply_.text();
    return true;
  }
  grpc::Status Finish() override {
    finished_ = true;
    RemoveHold();
    done_.Await();
    return status_;
  }

  void OnWriteDone(bool ok) override { written_->Tell(ok); }
  void OnWritesDoneDone(bool ok) override { writes_done_->Tell(ok); }
  void OnReadDone(bool ok) override { read_->Tell(ok); }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.Tell(true);
  }

 private:
  const std::unique_ptr<EchoService::Stub> stub_;
  EchoRequest request_;
  EchoReply reply_;
  Outcome* written_ = nullptr;
  Outcome* writes_done_ = nullptr;
  Outcome* read_ = nullptr;
  Outcome done_;
  grpc::Status status_;
  bool finished_ = false;
};

// A completion queue and the thread that drives it; tags are Outcomes.
class Queue {
 public:
  Queue() : driver_([this] { Drive(); }) {}
  ~Queue() {
    queue_.Shutdown();
    driver_.join();
  }
  grpc::CompletionQueue* get() { return &queue_; }

 private:
  void Drive() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) static_cast<Outcome*>(tag)->Tell(ok);
  }

  grpc::CompletionQueue queue_;
  std::thread driver_;
};

template <typename ReaderWriter, typename Request, typename Reply>
class QueueStream final : public Stream {
 public:
  template <typename Prepare>
  QueueStream(bool corked, const Prepare& prepare)
      : stream_(prepare(queue_.get())) {
    Outcome started;
    stream_->StartCall(&started);
    // A corked stream does not tell that it has started.
    if (!corked) started.Await();
  }

  bool Write(const std::string& text) override {
    Outcome outcome;
    stream_->Write(Encode(text), &outcome);
    return outcome.Await();
  }
  void WritesDone() override {
    Outcome outcome;
    stream_->WritesDone(&outcome);
    outcome.Await();
  }
  bool Read(std::string* text) override {
    Outcome outcome;
    Reply reply;
    stream_->Read(&reply, &outcome);
    if (!outcome.Await()) return false;
    *text = Decode(&reply);
    return true;
  }
  grpc::Status Finish() override {
    Outcome outcome;
    grpc::Status status;
    stream_->Finish(&status, &outcome);
    outcome.Await();
    return status;
  }

 private:
  static Request Encode(const std::string& text) {
    if constexpr (std::is_same_v<Request, grpc::ByteBuffer>) {
      const grpc::Slice slice(RequestOf(text).SerializeAsString());
      return grpc::ByteBuffer(&slice, 1);
    } else {
      return RequestOf(text);
    }
  }
  static std::string Decode(Reply* reply) {
    if constexpr (std::is_same_v<Reply, grpc::ByteBuffer>) {
      EchoReply decoded;
      (void)grpc::SerializationTraits<EchoReply>::Deserialize(reply, &decoded);
      return decoded.text();
    } else {
      return reply->text();
    }
  }

  Queue queue_;
  const std::unique_ptr<ReaderWriter> stream_;
};

}  // namespace

std::vector<Style> StreamStyles() {
  return {Style::kSync, Style::kReactor, Style::kQueue, Style::kGenericQueue};
}

std::unique_ptr<Stream> StartStream(
    Style style, const std::shared_ptr<grpc::Channel>& channel,
    grpc::ClientContext* context, bool corked) {
  if (corked) context->set_initial_metadata_corked(true);
  switch (style) {
    case Style::kSync:
      return std::make_unique<SyncStream>(channel, context);
    case Style::kReactor:
      return std::make_unique<CallbackStream>(channel, context);
    case Style::kQueue:
      return std::make_unique<
          QueueStream<grpc::ClientAsyncReaderWriter<EchoRequest, EchoReply>,
                      EchoRequest, EchoReply>>(
          corked, [&](grpc::CompletionQueue* queue) {
            return EchoService::NewStub(channel)->PrepareAsyncBidi(context,
                                                                   queue);
          });
    case Style::kGenericQueue:
      return std::make_unique<QueueStream<grpc::GenericClientAsyncReaderWriter,
                                          grpc::ByteBuffer, grpc::ByteBuffer>>(
          corked, [&](grpc::CompletionQueue* queue) {
            return grpc::GenericStub(channel).PrepareCall(
                context, "/retry_guard.testing.EchoService/Bidi", queue);
          });
    default:
      return nullptr;
  }
}

}  // namespace retry_guard::end2end
