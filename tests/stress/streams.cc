#include "tests/stress/streams.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "retry_guard/testing/echo.grpc.pb.h"

namespace retry_guard::stress {
namespace {

using end2end::Stream;
using end2end::Style;
using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;

EchoRequest RequestOf(const std::string& text) {
  EchoRequest request;
  request.set_text(text);
  return request;
}

// The end of one operation. Who hangs is found by the watchdog, which can name
// the call.
class Outcome {
 public:
  void Tell(bool ok) {
    ok_ = ok;
    told_.Notify();
  }
  bool Await() {
    told_.WaitForNotification();
    return ok_;
  }

 private:
  bool ok_ = false;
  absl::Notification told_;
};

// Runs operations of a completion queue one at a time.
class Queue {
 public:
  ~Queue() {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }
  grpc::CompletionQueue* get() { return &queue_; }
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

 private:
  grpc::CompletionQueue queue_;
};

// ---- Server streaming.

class ReadOnly : public Stream {
 public:
  bool Write(const std::string& /*text*/) override { return false; }
  void WritesDone() override {}
};

class SyncReader final : public ReadOnly {
 public:
  SyncReader(const std::shared_ptr<grpc::Channel>& channel,
             grpc::ClientContext* context, const std::string& request)
      : reader_(EchoService::NewStub(channel)->ServerStream(
            context, RequestOf(request))) {}
  bool Read(std::string* text) override {
    EchoReply reply;
    if (!reader_->Read(&reply)) return false;
    *text = reply.text();
    return true;
  }
  grpc::Status Finish() override { return reader_->Finish(); }

 private:
  const std::unique_ptr<grpc::ClientReader<EchoReply>> reader_;
};

class QueueReader final : public ReadOnly {
 public:
  QueueReader(const std::shared_ptr<grpc::Channel>& channel,
              grpc::ClientContext* context, const std::string& request)
      : reader_(EchoService::NewStub(channel)->PrepareAsyncServerStream(
            context, RequestOf(request), queue_.get())) {
    reader_->StartCall(this);
    queue_.Await();
  }
  bool Read(std::string* text) override {
    EchoReply reply;
    reader_->Read(&reply, this);
    if (!queue_.Await()) return false;
    *text = reply.text();
    return true;
  }
  grpc::Status Finish() override {
    grpc::Status status;
    reader_->Finish(&status, this);
    queue_.Await();
    return status;
  }

 private:
  Queue queue_;
  const std::unique_ptr<grpc::ClientAsyncReader<EchoReply>> reader_;
};

class CallbackReader final : public ReadOnly,
                             public grpc::ClientReadReactor<EchoReply> {
 public:
  CallbackReader(const std::shared_ptr<grpc::Channel>& channel,
                 grpc::ClientContext* context, const std::string& request)
      : request_(RequestOf(request)) {
    EchoService::NewStub(channel)->async()->ServerStream(context, &request_,
                                                         this);
    AddHold();
    StartCall();
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
    RemoveHold();
    done_.Await();
    return status_;
  }
  void OnReadDone(bool ok) override { read_->Tell(ok); }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.Tell(true);
  }

 private:
  const EchoRequest request_;
  EchoReply reply_;
  Outcome* read_ = nullptr;
  Outcome done_;
  grpc::Status status_;
};

// ---- Client streaming.

class WriteOnly : public Stream {
 public:
  bool Read(std::string* text) override {
    *text = reply_.text();
    return !text->empty();
  }

 protected:
  EchoReply reply_;
};

class SyncWriter final : public WriteOnly {
 public:
  SyncWriter(const std::shared_ptr<grpc::Channel>& channel,
             grpc::ClientContext* context)
      : writer_(EchoService::NewStub(channel)->ClientStream(context, &reply_)) {
  }
  bool Write(const std::string& text) override {
    return writer_->Write(RequestOf(text));
  }
  void WritesDone() override { writer_->WritesDone(); }
  grpc::Status Finish() override { return writer_->Finish(); }

 private:
  const std::unique_ptr<grpc::ClientWriter<EchoRequest>> writer_;
};

class QueueWriter final : public WriteOnly {
 public:
  QueueWriter(const std::shared_ptr<grpc::Channel>& channel,
              grpc::ClientContext* context, bool corked)
      : writer_(EchoService::NewStub(channel)->PrepareAsyncClientStream(
            context, &reply_, queue_.get())) {
    writer_->StartCall(this);
    // A corked stream does not tell that it has started.
    if (!corked) queue_.Await();
  }
  bool Write(const std::string& text) override {
    writer_->Write(RequestOf(text), this);
    return queue_.Await();
  }
  void WritesDone() override {
    writer_->WritesDone(this);
    queue_.Await();
  }
  grpc::Status Finish() override {
    grpc::Status status;
    writer_->Finish(&status, this);
    queue_.Await();
    return status;
  }

 private:
  Queue queue_;
  const std::unique_ptr<grpc::ClientAsyncWriter<EchoRequest>> writer_;
};

class CallbackWriter final : public WriteOnly,
                             public grpc::ClientWriteReactor<EchoRequest> {
 public:
  CallbackWriter(const std::shared_ptr<grpc::Channel>& channel,
                 grpc::ClientContext* context) {
    EchoService::NewStub(channel)->async()->ClientStream(context, &reply_,
                                                         this);
    AddHold();
    StartCall();
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
    closed_ = &outcome;
    StartWritesDone();
    outcome.Await();
  }
  grpc::Status Finish() override {
    RemoveHold();
    done_.Await();
    return status_;
  }
  void OnWriteDone(bool ok) override { written_->Tell(ok); }
  void OnWritesDoneDone(bool ok) override { closed_->Tell(ok); }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.Tell(true);
  }

 private:
  EchoRequest request_;
  Outcome* written_ = nullptr;
  Outcome* closed_ = nullptr;
  Outcome done_;
  grpc::Status status_;
};

}  // namespace

std::unique_ptr<Stream> StartServerStream(
    Style style, const std::shared_ptr<grpc::Channel>& channel,
    grpc::ClientContext* context, const std::string& request) {
  switch (style) {
    case Style::kSync:
      return std::make_unique<SyncReader>(channel, context, request);
    case Style::kReactor:
      return std::make_unique<CallbackReader>(channel, context, request);
    default:
      return std::make_unique<QueueReader>(channel, context, request);
  }
}

std::unique_ptr<Stream> StartClientStream(
    Style style, const std::shared_ptr<grpc::Channel>& channel,
    grpc::ClientContext* context, bool corked) {
  if (corked) context->set_initial_metadata_corked(true);
  switch (style) {
    case Style::kSync:
      return std::make_unique<SyncWriter>(channel, context);
    case Style::kReactor:
      return std::make_unique<CallbackWriter>(channel, context);
    default:
      return std::make_unique<QueueWriter>(channel, context, corked);
  }
}

}  // namespace retry_guard::stress
