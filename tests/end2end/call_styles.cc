#include "tests/end2end/call_styles.h"

#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;

std::atomic<int> keep_requests{0};

grpc::ByteBuffer ToBytes(const EchoRequest& request) {
  grpc::ByteBuffer bytes;
  bool own = false;
  (void)grpc::SerializationTraits<EchoRequest>::Serialize(request, &bytes, &own)
      .ok();
  return bytes;
}

EchoReply FromBytes(grpc::ByteBuffer bytes) {
  EchoReply reply;
  if (bytes.Valid()) {
    (void)grpc::SerializationTraits<EchoReply>::Deserialize(&bytes, &reply)
        .ok();
  }
  return reply;
}

}  // namespace

std::vector<Style> AllStyles() {
  return {Style::kSync,
          Style::kCallback,
          Style::kReactor,
          Style::kQueue,
          Style::kQueueHeadersFirst,
          Style::kGenericQueue,
          Style::kGenericCallback,
          Style::kGenericReactor};
}

bool HeadersCommit(Style style) {
  return style == Style::kReactor || style == Style::kQueueHeadersFirst ||
         style == Style::kGenericReactor;
}

bool IsGeneric(Style style) {
  return style == Style::kGenericQueue || style == Style::kGenericCallback ||
         style == Style::kGenericReactor;
}

std::string StyleName(Style style) {
  switch (style) {
    case Style::kSync:
      return "Sync";
    case Style::kCallback:
      return "Callback";
    case Style::kReactor:
      return "Reactor";
    case Style::kQueue:
      return "Queue";
    case Style::kQueueHeadersFirst:
      return "QueueHeadersFirst";
    case Style::kGenericQueue:
      return "GenericQueue";
    case Style::kGenericCallback:
      return "GenericCallback";
    case Style::kGenericReactor:
      return "GenericReactor";
  }
  return "?";
}

std::ostream& operator<<(std::ostream& os, Style style) {
  return os << StyleName(style);
}

// Everything that a running call refers to.
class StartedCall::Run {
 public:
  Run(Style style, std::shared_ptr<grpc::Channel> channel,
      grpc::ClientContext* context, const std::string& text,
      const std::string& method)
      : context_(context),
        method_(method),
        path_(absl::StrCat("/retry_guard.testing.EchoService/", method)),
        stub_(EchoService::NewStub(channel)),
        generic_(std::make_unique<grpc::GenericStub>(std::move(channel))) {
    request_.set_text(text);
    reply_.set_text(kUntouched);
    bytes_ = ToBytes(request_);
    switch (style) {
      case Style::kSync:
        thread_ = std::thread([this] { Sync(); });
        break;
      case Style::kQueue:
        thread_ = std::thread([this] { Queue(false); });
        break;
      case Style::kQueueHeadersFirst:
        thread_ = std::thread([this] { Queue(true); });
        break;
      case Style::kGenericQueue:
        thread_ = std::thread([this] { GenericQueue(); });
        break;
      case Style::kCallback:
        Callback();
        break;
      case Style::kGenericCallback:
        generic_->UnaryCall(
            context_, path_, {}, &bytes_, &reply_bytes_,
            [this](grpc::Status s) { End(std::move(s), true); });
        break;
      case Style::kReactor:
        Reactor();
        break;
      case Style::kGenericReactor:
        reactor_.generic = true;
        generic_->PrepareUnaryCall(context_, path_, {}, &bytes_, &reply_bytes_,
                                   &reactor_);
        reactor_.StartCall();
        break;
    }
    // What the application does to its request, and to the stub, is its own
    // business now.
    if (!thread_.joinable()) ForgetWhatWasSent();
  }

  ~Run() {
    if (thread_.joinable()) thread_.join();
  }

  bool Await(absl::Duration timeout) {
    return done_.WaitForNotificationWithTimeout(timeout);
  }
  bool done() const { return done_.HasBeenNotified(); }
  bool AwaitHeaders() const {
    return headers_.WaitForNotificationWithTimeout(absl::Seconds(20));
  }
  const grpc::Status& status() const { return status_; }
  const std::string& text() const { return text_; }

 private:
  class UnaryReactor final : public grpc::ClientUnaryReactor {
   public:
    explicit UnaryReactor(Run* run) : run_(run) {}
    void OnReadInitialMetadataDone(bool /*ok*/) override {
      run_->headers_.Notify();
    }
    void OnDone(const grpc::Status& status) override {
      run_->End(status, generic);
    }
    bool generic = false;

   private:
    Run* const run_;
  };

  void End(grpc::Status status, bool generic = false) {
    status_ = std::move(status);
    text_ = (generic ? FromBytes(reply_bytes_) : reply_).text();
    done_.Notify();
  }

  void Sync() {
    if (method_ == "Idempotent") {
      End(stub_->Idempotent(context_, request_, &reply_));
    } else if (method_ == "ReadOnly") {
      End(stub_->ReadOnly(context_, request_, &reply_));
    } else {
      End(stub_->Unary(context_, request_, &reply_));
    }
  }

  void Callback() {
    const auto end = [this](grpc::Status s) { End(std::move(s)); };
    if (method_ == "Idempotent") {
      stub_->async()->Idempotent(context_, &request_, &reply_, end);
    } else if (method_ == "ReadOnly") {
      stub_->async()->ReadOnly(context_, &request_, &reply_, end);
    } else {
      stub_->async()->Unary(context_, &request_, &reply_, end);
    }
  }

  void Reactor() {
    if (method_ == "Idempotent") {
      stub_->async()->Idempotent(context_, &request_, &reply_, &reactor_);
    } else if (method_ == "ReadOnly") {
      stub_->async()->ReadOnly(context_, &request_, &reply_, &reactor_);
    } else {
      stub_->async()->Unary(context_, &request_, &reply_, &reactor_);
    }
    reactor_.StartCall();
  }

  // Waits for one tag, which must be `expected`.
  static void NextTag(grpc::CompletionQueue& queue, void* expected) {
    void* tag = nullptr;
    bool ok = false;
    if (!queue.Next(&tag, &ok) || tag != expected) {
      std::fprintf(stderr, "a completion queue returned a wrong tag\n");
      std::abort();
    }
  }

  void ForgetWhatWasSent() {
    stub_ = nullptr;
    generic_ = nullptr;
    if (keep_requests > 0) return;
    request_.set_text("changed after the start");
    bytes_.Clear();
  }

  // gRPC may still be busy with a queue that has delivered its last tag, until
  // it says that it has shut down.
  static void Drain(grpc::CompletionQueue& queue) {
    queue.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) {
    }
  }

  void Queue(bool headers_first) {
    grpc::CompletionQueue queue;
    auto reader = method_ == "Idempotent" ? stub_->PrepareAsyncIdempotent(
                                                context_, request_, &queue)
                  : method_ == "ReadOnly"
                      ? stub_->PrepareAsyncReadOnly(context_, request_, &queue)
                      : stub_->PrepareAsyncUnary(context_, request_, &queue);
    reader->StartCall();
    ForgetWhatWasSent();
    if (headers_first) {
      reader->ReadInitialMetadata(&queue);
      NextTag(queue, &queue);
      headers_.Notify();
    }
    grpc::Status status;
    reader->Finish(&reply_, &status, this);
    NextTag(queue, this);
    Drain(queue);
    End(status);
  }

  void GenericQueue() {
    grpc::CompletionQueue queue;
    auto reader = generic_->PrepareUnaryCall(context_, path_, bytes_, &queue);
    reader->StartCall();
    ForgetWhatWasSent();
    grpc::Status status;
    reader->Finish(&reply_bytes_, &status, this);
    NextTag(queue, this);
    Drain(queue);
    End(status, true);
  }

  grpc::ClientContext* const context_;
  const std::string method_;
  const std::string path_;
  std::unique_ptr<EchoService::Stub> stub_;
  std::unique_ptr<grpc::GenericStub> generic_;
  UnaryReactor reactor_{this};
  EchoRequest request_;
  EchoReply reply_;
  grpc::ByteBuffer bytes_;
  grpc::ByteBuffer reply_bytes_;
  grpc::Status status_;
  std::string text_;
  absl::Notification headers_;
  absl::Notification done_;
  std::thread thread_;
};

StartedCall::KeepRequests::KeepRequests() { ++keep_requests; }
StartedCall::KeepRequests::~KeepRequests() { --keep_requests; }

StartedCall::StartedCall(Style style,
                         const std::shared_ptr<grpc::Channel>& channel,
                         grpc::ClientContext* context, const std::string& text,
                         const std::string& method)
    : run_(std::make_unique<Run>(style, channel, context, text, method)) {}

StartedCall::~StartedCall() { Await(); }

const grpc::Status& StartedCall::Await(absl::Duration timeout) {
  if (!run_->Await(timeout)) {
    // There is no way on: gRPC still owns what the test has on its stack.
    std::fprintf(stderr, "a call has not ended within %s\n",
                 absl::FormatDuration(timeout).c_str());
    std::abort();
  }
  status_ = run_->status();
  text_ = run_->text();
  return status_;
}

bool StartedCall::done() const { return run_->done(); }

bool StartedCall::AwaitHeaders() const { return run_->AwaitHeaders(); }

CallResult Call(Style style, const std::shared_ptr<grpc::Channel>& channel,
                grpc::ClientContext* context, const std::string& text,
                const std::string& method) {
  StartedCall call(style, channel, context, text, method);
  grpc::Status status = call.Await();
  return {std::move(status), call.text()};
}

}  // namespace retry_guard::end2end
