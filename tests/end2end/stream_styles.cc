#include "tests/end2end/stream_styles.h"

#include <grpcpp/generic/generic_stub.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "retry_guard/testing/echo.grpc.pb.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;

[[noreturn]] void Die(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  std::abort();
}

template <typename Message>
Message Encode(const std::string& text) {
  EchoRequest request;
  request.set_text(text);
  if constexpr (std::is_same_v<Message, grpc::ByteBuffer>) {
    const grpc::Slice slice(request.SerializeAsString());
    return grpc::ByteBuffer(&slice, 1);
  } else {
    return request;
  }
}

std::string Decode(grpc::ByteBuffer* bytes) {
  EchoReply decoded;
  if (!bytes->Valid()) return "";
  (void)grpc::SerializationTraits<EchoReply>::Deserialize(bytes, &decoded);
  return decoded.text();
}
std::string Decode(EchoReply* reply) { return reply->text(); }

// What a reply object holds before its read.
template <typename Reply>
Reply Untouched() {
  Reply reply;
  if constexpr (std::is_same_v<Reply, EchoReply>) reply.set_text(kUntouched);
  return reply;
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
      Die("the stream hangs");
    }
    return ok_;
  }

 private:
  bool ok_ = false;
  absl::Notification told_;
};

// A stream has not the operations that its shape has not.
class ShapedStream : public Stream {
 public:
  bool Write(const std::string&) override { Die("this stream has no Write"); }
  bool WriteLast(const std::string&) override {
    Die("this stream has no WriteLast");
  }
  bool WritesDone() override { Die("this stream has no WritesDone"); }
  bool Read(std::string*) override { Die("this stream has no Read"); }
};

template <Shape kShape>
class SyncStream final : public ShapedStream {
 public:
  SyncStream(const std::shared_ptr<grpc::Channel>& channel,
             grpc::ClientContext* context, const std::string& request)
      : stub_(EchoService::NewStub(channel)) {
    if constexpr (kShape == Shape::kServerStream) {
      stream_ = stub_->ServerStream(context, Encode<EchoRequest>(request));
    } else if constexpr (kShape == Shape::kClientStream) {
      stream_ = stub_->ClientStream(context, &reply_);
    } else {
      stream_ = stub_->Bidi(context);
    }
  }

  bool Write(const std::string& text) override {
    if constexpr (kShape == Shape::kServerStream) {
      return ShapedStream::Write(text);
    } else {
      return stream_->Write(Encode<EchoRequest>(text));
    }
  }
  bool WriteLast(const std::string& text) override {
    if constexpr (kShape == Shape::kServerStream) {
      return ShapedStream::WriteLast(text);
    } else {
      return stream_->Write(Encode<EchoRequest>(text),
                            grpc::WriteOptions().set_last_message());
    }
  }
  bool WritesDone() override {
    if constexpr (kShape == Shape::kServerStream) {
      return ShapedStream::WritesDone();
    } else {
      return stream_->WritesDone();
    }
  }
  bool AwaitHeaders() override {
    stream_->WaitForInitialMetadata();
    return true;
  }
  bool Read(std::string* text) override {
    if constexpr (kShape == Shape::kClientStream) {
      return ShapedStream::Read(text);
    } else {
      EchoReply reply = Untouched<EchoReply>();
      const bool ok = stream_->Read(&reply);
      *text = reply.text();
      return ok;
    }
  }
  grpc::Status Finish() override { return stream_->Finish(); }
  std::string reply() const override { return reply_.text(); }

 private:
  using Of = std::conditional_t<
      kShape == Shape::kServerStream, grpc::ClientReader<EchoReply>,
      std::conditional_t<kShape == Shape::kClientStream,
                         grpc::ClientWriter<EchoRequest>,
                         grpc::ClientReaderWriter<EchoRequest, EchoReply>>>;

  const std::unique_ptr<EchoService::Stub> stub_;
  EchoReply reply_ = Untouched<EchoReply>();
  std::unique_ptr<Of> stream_;
};

template <typename Reactor>
class WithEnd : public Reactor {
 public:
  void OnReadInitialMetadataDone(bool ok) override { headers_.Tell(ok); }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.Tell(true);
  }

 protected:
  Outcome headers_;
  Outcome done_;
  grpc::Status status_;
};

template <typename Reactor>
class WithReads : public Reactor {
 public:
  void OnReadDone(bool ok) override { read_->Tell(ok); }

 protected:
  Outcome* read_ = nullptr;
};

template <typename Reactor>
class WithWrites : public Reactor {
 public:
  void OnWriteDone(bool ok) override { written_->Tell(ok); }
  void OnWritesDoneDone(bool ok) override { writes_done_->Tell(ok); }

 protected:
  Outcome* written_ = nullptr;
  Outcome* writes_done_ = nullptr;
};

template <Shape kShape, typename Request, typename Reply>
struct ReactorFor {
  using type =
      WithReads<WithWrites<WithEnd<grpc::ClientBidiReactor<Request, Reply>>>>;
};
template <typename Request, typename Reply>
struct ReactorFor<Shape::kServerStream, Request, Reply> {
  using type = WithReads<WithEnd<grpc::ClientReadReactor<Reply>>>;
};
template <typename Request, typename Reply>
struct ReactorFor<Shape::kClientStream, Request, Reply> {
  using type = WithWrites<WithEnd<grpc::ClientWriteReactor<Request>>>;
};

template <Shape kShape, typename Request = EchoRequest,
          typename Reply = EchoReply>
class CallbackStream final : public ShapedStream,
                             public ReactorFor<kShape, Request, Reply>::type {
 public:
  CallbackStream(const std::shared_ptr<grpc::Channel>& channel,
                 grpc::ClientContext* context, const std::string& request)
      : stub_(EchoService::NewStub(channel)),
        request_(Encode<Request>(request)) {
    if constexpr (std::is_same_v<Request, grpc::ByteBuffer>) {
      grpc::GenericStub(channel).PrepareBidiStreamingCall(
          context, "/retry_guard.testing.EchoService/Bidi", {}, this);
    } else if constexpr (kShape == Shape::kServerStream) {
      stub_->async()->ServerStream(context, &request_, this);
    } else if constexpr (kShape == Shape::kClientStream) {
      stub_->async()->ClientStream(context, &reply_, this);
    } else {
      stub_->async()->Bidi(context, this);
    }
    // What the application does comes from other threads than the callbacks.
    this->AddHold();
    this->StartCall();
  }
  ~CallbackStream() override {
    if (!finished_) {
      this->RemoveHold();
      this->done_.Await();
    }
  }

  bool Write(const std::string& text) override { return Send(text, {}); }
  bool WriteLast(const std::string& text) override {
    return Send(text, grpc::WriteOptions().set_last_message());
  }
  bool WritesDone() override {
    if constexpr (kShape == Shape::kServerStream) {
      return ShapedStream::WritesDone();
    } else {
      Outcome outcome;
      this->writes_done_ = &outcome;
      this->StartWritesDone();
      return outcome.Await();
    }
  }
  bool AwaitHeaders() override { return this->headers_.Await(); }
  bool Read(std::string* text) override {
    if constexpr (kShape == Shape::kClientStream) {
      return ShapedStream::Read(text);
    } else {
      Outcome outcome;
      this->read_ = &outcome;
      reply_ = Untouched<Reply>();
      this->StartRead(&reply_);
      const bool ok = outcome.Await();
      *text = Decode(&reply_);
      return ok;
    }
  }
  grpc::Status Finish() override {
    finished_ = true;
    this->RemoveHold();
    this->done_.Await();
    return this->status_;
  }
  std::string reply() const override {
    Reply copy = reply_;
    return Decode(&copy);
  }

 private:
  bool Send(const std::string& text, const grpc::WriteOptions& options) {
    if constexpr (kShape == Shape::kServerStream) {
      return ShapedStream::Write(text);
    } else {
      request_ = Encode<Request>(text);
      Outcome outcome;
      this->written_ = &outcome;
      this->StartWrite(&request_, options);
      return outcome.Await();
    }
  }

  const std::unique_ptr<EchoService::Stub> stub_;
  Request request_;
  Reply reply_ = Untouched<Reply>();
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

template <Shape kShape, typename Request = EchoRequest,
          typename Reply = EchoReply>
class QueueStream final : public ShapedStream {
 public:
  QueueStream(const std::shared_ptr<grpc::Channel>& channel,
              grpc::ClientContext* context, const StreamOptions& options) {
    const auto stub = EchoService::NewStub(channel);
    if constexpr (std::is_same_v<Request, grpc::ByteBuffer>) {
      stream_ = grpc::GenericStub(channel).PrepareCall(
          context, "/retry_guard.testing.EchoService/Bidi", queue_.get());
    } else if constexpr (kShape == Shape::kServerStream) {
      stream_ = stub->PrepareAsyncServerStream(
          context, Encode<Request>(options.request), queue_.get());
    } else if constexpr (kShape == Shape::kClientStream) {
      stream_ = stub->PrepareAsyncClientStream(context, &reply_, queue_.get());
    } else {
      stream_ = stub->PrepareAsyncBidi(context, queue_.get());
    }
    Outcome started;
    stream_->StartCall(&started);
    // A corked stream does not tell that it has started.
    if (!options.corked) started.Await();
  }

  bool Write(const std::string& text) override { return Send(text, {}); }
  bool WriteLast(const std::string& text) override {
    return Send(text, grpc::WriteOptions().set_last_message());
  }
  bool WritesDone() override {
    if constexpr (kShape == Shape::kServerStream) {
      return ShapedStream::WritesDone();
    } else {
      Outcome outcome;
      stream_->WritesDone(&outcome);
      return outcome.Await();
    }
  }
  bool AwaitHeaders() override {
    Outcome outcome;
    stream_->ReadInitialMetadata(&outcome);
    return outcome.Await();
  }
  bool Read(std::string* text) override {
    if constexpr (kShape == Shape::kClientStream) {
      return ShapedStream::Read(text);
    } else {
      Outcome outcome;
      Reply reply = Untouched<Reply>();
      stream_->Read(&reply, &outcome);
      const bool ok = outcome.Await();
      *text = Decode(&reply);
      return ok;
    }
  }
  grpc::Status Finish() override {
    Outcome outcome;
    grpc::Status status;
    stream_->Finish(&status, &outcome);
    outcome.Await();
    return status;
  }
  std::string reply() const override {
    Reply copy = reply_;
    return Decode(&copy);
  }

 private:
  using Of = std::conditional_t<
      kShape == Shape::kServerStream, grpc::ClientAsyncReader<Reply>,
      std::conditional_t<kShape == Shape::kClientStream,
                         grpc::ClientAsyncWriter<Request>,
                         grpc::ClientAsyncReaderWriter<Request, Reply>>>;

  bool Send(const std::string& text, const grpc::WriteOptions& options) {
    if constexpr (kShape == Shape::kServerStream) {
      return ShapedStream::Write(text);
    } else {
      Outcome outcome;
      stream_->Write(Encode<Request>(text), options, &outcome);
      return outcome.Await();
    }
  }

  Queue queue_;
  Reply reply_ = Untouched<Reply>();
  std::unique_ptr<Of> stream_;
};

template <Shape kShape>
std::unique_ptr<Stream> Start(Style style,
                              const std::shared_ptr<grpc::Channel>& channel,
                              grpc::ClientContext* context,
                              const StreamOptions& options) {
  switch (style) {
    case Style::kSync:
      return std::make_unique<SyncStream<kShape>>(channel, context,
                                                  options.request);
    case Style::kReactor:
      return std::make_unique<CallbackStream<kShape>>(channel, context,
                                                      options.request);
    case Style::kQueue:
      return std::make_unique<QueueStream<kShape>>(channel, context, options);
    case Style::kGenericReactor:
      return std::make_unique<
          CallbackStream<Shape::kBidi, grpc::ByteBuffer, grpc::ByteBuffer>>(
          channel, context, options.request);
    case Style::kGenericQueue:
      return std::make_unique<
          QueueStream<Shape::kBidi, grpc::ByteBuffer, grpc::ByteBuffer>>(
          channel, context, options);
    default:
      Die("streams have no such style");
  }
}

}  // namespace

std::vector<Kind> StreamKinds() {
  std::vector<Kind> kinds;
  for (const Shape shape : {Shape::kServerStream, Shape::kClientStream}) {
    for (const Style style : {Style::kSync, Style::kReactor, Style::kQueue}) {
      kinds.push_back({shape, style});
    }
  }
  for (const Style style : StreamStyles()) {
    kinds.push_back({Shape::kBidi, style});
  }
  return kinds;
}

std::vector<Kind> AllKinds() {
  std::vector<Kind> kinds;
  for (const Style style : AllStyles()) {
    kinds.push_back({Shape::kUnary, style});
  }
  for (const Kind& kind : StreamKinds()) kinds.push_back(kind);
  return kinds;
}

std::string KindName(const Kind& kind) {
  return absl::StrCat(MethodOf(kind.shape), StyleName(kind.style));
}

std::ostream& operator<<(std::ostream& os, const Kind& kind) {
  return os << KindName(kind);
}

std::string MethodOf(Shape shape) {
  switch (shape) {
    case Shape::kUnary:
      return "Unary";
    case Shape::kServerStream:
      return "ServerStream";
    case Shape::kClientStream:
      return "ClientStream";
    case Shape::kBidi:
      return "Bidi";
  }
  return "?";
}

std::vector<Style> StreamStyles() {
  return {Style::kSync, Style::kReactor, Style::kQueue, Style::kGenericQueue,
          Style::kGenericReactor};
}

std::unique_ptr<Stream> StartStream(
    const Kind& kind, const std::shared_ptr<grpc::Channel>& channel,
    grpc::ClientContext* context, const StreamOptions& options) {
  if (options.corked) context->set_initial_metadata_corked(true);
  switch (kind.shape) {
    case Shape::kServerStream:
      return Start<Shape::kServerStream>(kind.style, channel, context, options);
    case Shape::kClientStream:
      return Start<Shape::kClientStream>(kind.style, channel, context, options);
    case Shape::kBidi:
      return Start<Shape::kBidi>(kind.style, channel, context, options);
    case Shape::kUnary:
      break;
  }
  Die("a unary call is no stream");
}

CallResult CallWhole(const Kind& kind,
                     const std::shared_ptr<grpc::Channel>& channel,
                     grpc::ClientContext* context, const std::string& text) {
  if (kind.shape == Shape::kUnary) {
    return Call(kind.style, channel, context, text);
  }
  StreamOptions options;
  options.request = text;
  const auto stream = StartStream(kind, channel, context, options);
  if (ClientStreams(kind.shape)) {
    stream->Write(text);
    stream->WritesDone();
  }
  CallResult result;
  std::string read;
  while (ServerStreams(kind.shape) && stream->Read(&read)) result.text += read;
  result.status = stream->Finish();
  if (!ServerStreams(kind.shape)) result.text = stream->reply();
  return result;
}

}  // namespace retry_guard::end2end
