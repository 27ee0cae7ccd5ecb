// Streams are retried until they commit (gRFC A6).

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "tests/end2end/fixture.h"
#include "tests/end2end/interceptors.h"
#include "tests/end2end/stream_styles.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;

// What the server does with one stream.
struct Act {
  int reads = 0;         // messages read first; -1: all
  bool headers = false;  // then sends response headers
  std::vector<std::string> replies;
  bool echo = false;  // then answers each message with itself
  bool hang = false;  // then waits for the client to go
  grpc::Status status;
};

Act Down(int reads = 0) {
  Act act;
  act.reads = reads;
  act.status = {grpc::StatusCode::UNAVAILABLE, "down"};
  return act;
}
Act Echo() {
  Act act;
  act.echo = true;
  return act;
}

// Acts by a script: call number n by script[n], later ones by the last entry.
class StreamServer final : public EchoService::Service {
 public:
  explicit StreamServer(std::vector<Act> script) : script_(std::move(script)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~StreamServer() override {
    server_->Shutdown(std::chrono::system_clock::now());
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  // What was read of each call, in the order of the calls.
  std::vector<std::vector<std::string>> read() const {
    absl::MutexLock lock(&mu_);
    return read_;
  }
  int cancelled() const {
    absl::MutexLock lock(&mu_);
    return cancelled_;
  }
  bool AwaitCancelled() {
    absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(
        absl::Condition(
            +[](int* count) { return *count > 0; }, &cancelled_),
        absl::Seconds(20));
  }

  grpc::Status Bidi(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<EchoReply, EchoRequest>* stream) override {
    size_t number = 0;
    {
      absl::MutexLock lock(&mu_);
      number = read_.size();
      read_.emplace_back();
    }
    return Play(number, context, stream);
  }

  grpc::Status ServerStream(grpc::ServerContext*, const EchoRequest* request,
                            grpc::ServerWriter<EchoReply>* writer) override {
    const Act act = Next(request->text());
    Reply(act, writer);
    return act.status;
  }

  grpc::Status ClientStream(grpc::ServerContext*,
                            grpc::ServerReader<EchoRequest>* reader,
                            EchoReply* reply) override {
    EchoRequest request;
    std::string all;
    while (reader->Read(&request)) absl::StrAppend(&all, request.text());
    reply->set_text(all);
    return Next(all).status;
  }

 private:
  Act Next(const std::string& text) {
    absl::MutexLock lock(&mu_);
    read_.push_back({text});
    return script_[std::min(read_.size(), script_.size()) - 1];
  }

  template <typename Writer>
  static void Reply(const Act& act, Writer* writer) {
    if (act.headers) writer->SendInitialMetadata();
    for (const std::string& text : act.replies) {
      EchoReply reply;
      reply.set_text(text);
      writer->Write(reply);
    }
  }

  grpc::Status Play(size_t number, grpc::ServerContext* context,
                    grpc::ServerReaderWriter<EchoReply, EchoRequest>* stream) {
    const Act& act = script_[std::min(number, script_.size() - 1)];
    EchoRequest request;
    const auto read = [&] {
      if (!stream->Read(&request)) return false;
      absl::MutexLock lock(&mu_);
      read_[number].push_back(request.text());
      return true;
    };
    for (int i = 0; i != act.reads && read(); ++i) {
    }
    Reply(act, stream);
    while (act.echo && read()) {
      EchoReply reply;
      reply.set_text(request.text());
      stream->Write(reply);
    }
    while (act.hang && !context->IsCancelled()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (context->IsCancelled()) {
      absl::MutexLock lock(&mu_);
      ++cancelled_;
    }
    return act.status;
  }

  const std::vector<Act> script_;
  mutable absl::Mutex mu_;
  std::vector<std::vector<std::string>> read_ ABSL_GUARDED_BY(mu_);
  int cancelled_ ABSL_GUARDED_BY(mu_) = 0;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

class StreamFixture : public EndToEndTest {
 protected:
  void Serve(std::vector<Act> script, const Policy& policy) {
    streams_ = std::make_unique<StreamServer>(std::move(script));
    target_ = streams_->address();
    MakeChannel(policy);
  }

  static std::vector<std::string> ReadAll(Stream& stream) {
    std::vector<std::string> texts;
    std::string text;
    while (stream.Read(&text)) texts.push_back(text);
    return texts;
  }

  std::unique_ptr<StreamServer> streams_;
};

class StreamRetryTest : public StreamFixture {
 protected:
  std::unique_ptr<Stream> Start(bool corked = false) {
    return StartStream(GetParam(), channel_, &context_, corked);
  }

  grpc::ClientContext context_;
};

TEST_P(StreamRetryTest, WhatWasWrittenIsWrittenAgain) {
  Serve({Down(2), Down(0), Echo()}, Policy(4));
  const auto stream = Start();
  EXPECT_TRUE(stream->Write("one"));
  EXPECT_TRUE(stream->Write("two"));
  std::string text;
  ASSERT_TRUE(stream->Read(&text));
  EXPECT_EQ(text, "one");
  EXPECT_TRUE(stream->Write("three"));
  stream->WritesDone();
  EXPECT_THAT(ReadAll(*stream), ElementsAre("two", "three"));
  EXPECT_TRUE(stream->Finish().ok());
  ASSERT_EQ(streams_->read().size(), 3);
  EXPECT_THAT(streams_->read().back(), ElementsAre("one", "two", "three"));
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Retries(), Succeeds()));
}

TEST_P(StreamRetryTest, TheHalfCloseIsSentAgain) {
  Serve({Down(-1), Echo()}, Policy(4));
  const auto stream = Start();
  EXPECT_TRUE(stream->Write("one"));
  stream->WritesDone();
  EXPECT_THAT(ReadAll(*stream), ElementsAre("one"));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds()));
}

TEST_P(StreamRetryTest, AMessageCommits) {
  Act act = Down(1);
  act.replies = {"first"};
  Serve({act}, Policy(4));
  const auto stream = Start();
  EXPECT_TRUE(stream->Write("one"));
  stream->WritesDone();
  EXPECT_THAT(ReadAll(*stream), ElementsAre("first"));
  EXPECT_EQ(stream->Finish().error_message(), "down");
  EXPECT_EQ(streams_->read().size(), 1);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kCommitted)));
}

TEST_P(StreamRetryTest, HeadersCommit) {
  Act act = Down(1);
  act.headers = true;
  Serve({act}, Policy(4));
  const auto stream = Start();
  EXPECT_TRUE(stream->Write("one"));
  stream->WritesDone();
  EXPECT_THAT(ReadAll(*stream), IsEmpty());
  EXPECT_EQ(stream->Finish().error_message(), "down");
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kCommitted)));
}

TEST_P(StreamRetryTest, WhatDoesNotFitTheBufferCommits) {
  Serve({Down(2), Echo()}, Policy(4).Guard("\"bufferLimitBytes\": 100"));
  const auto stream = Start();
  EXPECT_TRUE(stream->Write("small"));
  stream->Write(std::string(200, 'x'));
  EXPECT_THAT(ReadAll(*stream), IsEmpty());
  EXPECT_EQ(stream->Finish().error_message(), "down");
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kCommitted)));
}

TEST_P(StreamRetryTest, TheLastErrorIsTheServers) {
  Serve({Down()}, Policy(3));
  const auto stream = Start();
  EXPECT_THAT(ReadAll(*stream), IsEmpty());
  EXPECT_FALSE(stream->Write("too late"));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "down");
  EXPECT_THAT(
      seen_->decisions(),
      ElementsAre(Retries(), Retries(), Returns(Reason::kAttemptsExhausted)));
}

TEST_P(StreamRetryTest, ACorkedStreamIsRetried) {
  Serve({Down(1), Echo()}, Policy(3));
  const auto stream = Start(/*corked=*/true);
  EXPECT_TRUE(stream->Write("one"));
  stream->WritesDone();
  EXPECT_THAT(ReadAll(*stream), ElementsAre("one"));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds()));
}

TEST_P(StreamRetryTest, CancelledDuringABackoffItEndsAtOnce) {
  const auto clock = UseManualClock();
  Serve({Down()}, Policy(3).Backoff("100s"));
  const auto stream = Start();
  std::thread canceller([&] {
    EXPECT_TRUE(clock->AwaitTimers(1));
    context_.TryCancel();
  });
  EXPECT_THAT(ReadAll(*stream), IsEmpty());
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  canceller.join();
  EXPECT_EQ(streams_->read().size(), 1);
}

TEST_P(StreamRetryTest, ReadsAndWritesGoOnAtTheSameTime) {
  Serve({Down(3), Echo()}, Policy(3));
  const auto stream = Start();
  constexpr int kMessages = 500;
  std::thread writer([&] {
    for (int i = 0; i < kMessages; ++i) {
      EXPECT_TRUE(stream->Write(absl::StrCat(i)));
    }
    stream->WritesDone();
  });
  const std::vector<std::string> texts = ReadAll(*stream);
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
  ASSERT_EQ(texts.size(), kMessages);
  for (int i = 0; i < kMessages; ++i) EXPECT_EQ(texts[i], absl::StrCat(i));
}

TEST_P(StreamRetryTest, AnAttemptThatDoesNotAnswerInTimeIsRetried) {
  Act silent;
  silent.hang = true;
  Serve({silent, Echo()},
        Policy(3).Guard(
            R"("perAttemptTimeout": "0.2s", "idempotency": "IDEMPOTENT")"));
  const auto stream = Start();
  EXPECT_TRUE(stream->Write("one"));
  stream->WritesDone();
  EXPECT_THAT(ReadAll(*stream), ElementsAre("one"));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds()));
}

TEST_P(StreamRetryTest, TheAttemptTimeoutEndsWhenTheServerAnswers) {
  Act slow = Echo();
  slow.headers = true;
  Serve({slow}, Policy(3).Guard(R"("perAttemptTimeout": "0.2s")"));
  const auto stream = Start();
  std::string text;
  EXPECT_TRUE(stream->Write("one"));
  EXPECT_TRUE(stream->Read(&text));
  // Not a wait for something: what must not happen takes this long.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_TRUE(stream->Write("two"));
  stream->WritesDone();
  EXPECT_THAT(ReadAll(*stream), ElementsAre("two"));
  EXPECT_TRUE(stream->Finish().ok());
}

// Whoever reads without asking for the headers (a reactor) may have a message
// before it is told that headers have come.
TEST_P(StreamRetryTest, AMessageCommitsHoweverLateItsHeadersAreTold) {
  if (GetParam() != Style::kReactor) GTEST_SKIP() << "reads both at once";
  using grpc::experimental::InterceptionHookPoints;
  const auto clock = UseManualClock();
  streams_ = std::make_unique<StreamServer>(std::vector<Act>{Echo()});
  target_ = streams_->address();
  absl::Notification told;
  grpc::experimental::InterceptorBatchMethods* headers = nullptr;
  MakeChannelByHand(
      Policy(3).Guard(
          R"("perAttemptTimeout": "100s", "idempotency": "IDEMPOTENT")"),
      ListOf(
          OnEachBatch([&](grpc::experimental::InterceptorBatchMethods* batch) {
            if (batch->QueryInterceptionHookPoint(
                    InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
              headers = batch;
              told.Notify();
              return;
            }
            batch->Proceed();
          })));
  const auto stream = Start();
  std::string text;
  EXPECT_TRUE(stream->Write("one"));
  EXPECT_TRUE(stream->Read(&text));
  clock->Advance(absl::Seconds(100));
  told.WaitForNotification();
  headers->Proceed();
  EXPECT_TRUE(stream->Write("two"));
  stream->WritesDone();
  EXPECT_THAT(ReadAll(*stream), ElementsAre("two"));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_THAT(streams_->read(), ElementsAre(ElementsAre("one", "two")));
}

TEST_P(StreamRetryTest, WhatDoesNotFitTheBufferDuringABackoffIsSentByTheNext) {
  const auto clock = UseManualClock();
  Serve({Down(), Echo()},
        Policy(3).Backoff("100s").Guard("\"bufferLimitBytes\": 100"));
  const auto stream = Start();
  std::vector<std::string> texts;
  std::thread reader([&] { texts = ReadAll(*stream); });
  ASSERT_TRUE(clock->AwaitTimers(1));
  const std::string large(200, 'x');
  std::thread writer([&] {
    EXPECT_TRUE(stream->Write(large));
    EXPECT_TRUE(stream->Write("small"));
    stream->WritesDone();
  });
  clock->Advance(absl::Seconds(100));
  writer.join();
  reader.join();
  EXPECT_THAT(texts, ElementsAre(large, "small"));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_P(StreamRetryTest, CancelledBeforeItStartsACorkedStreamEndsAtOnce) {
  Serve({Echo()}, Policy(3));
  context_.TryCancel();
  const auto stream = Start(/*corked=*/true);
  EXPECT_THAT(ReadAll(*stream), IsEmpty());
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_THAT(streams_->read(), IsEmpty());
}

TEST_P(StreamRetryTest, TheAttemptTimeoutEndsWhenTheBufferLimitCommits) {
  Act late;
  late.reads = -1;
  late.replies = {"done"};
  Serve({late}, Policy(3).Guard(
                    R"("perAttemptTimeout": "0.2s", "bufferLimitBytes": 100)"));
  const auto stream = Start();
  // The server answers when all is written, and not before.
  EXPECT_TRUE(stream->Write(std::string(200, 'x')));
  // Not a wait for something: what must not happen takes this long.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  stream->WritesDone();
  EXPECT_THAT(ReadAll(*stream), ElementsAre("done"));
  EXPECT_TRUE(stream->Finish().ok());
}

// A blocking stream, too: the thread that writes must not be kept by the read.
TEST_P(StreamRetryTest, ACorkedStreamMayBeReadBeforeItStarts) {
  using grpc::experimental::InterceptionHookPoints;
  Act late;
  late.reads = 2;
  late.replies = {"done"};
  absl::Notification reads;
  std::atomic<bool> told{false};
  before_ours_.push_back(
      OnEachBatch([&](grpc::experimental::InterceptorBatchMethods* batch) {
        const bool starts = batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_INITIAL_METADATA);
        batch->Proceed();
        if (!starts && !told.exchange(true)) reads.Notify();
      }));
  Serve({late}, Policy(3));
  const auto stream = Start(/*corked=*/true);
  std::vector<std::string> texts;
  std::thread reader([&] { texts = ReadAll(*stream); });
  reads.WaitForNotification();
  EXPECT_TRUE(stream->Write("one"));
  EXPECT_TRUE(stream->Write("two"));
  stream->WritesDone();
  reader.join();
  EXPECT_THAT(texts, ElementsAre("done"));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_P(StreamRetryTest, AnOpenBreakerRefusesACorkedStreamAtOnce) {
  Serve({Down()},
        Policy(1).Breaker("\"consecutiveFailures\": 1, \"openFor\": \"100s\", "
                          "\"maxOpenFor\": \"100s\""));
  {
    grpc::ClientContext context;
    const auto stream = StartStream(Style::kSync, channel_, &context);
    ReadAll(*stream);
    stream->Finish();
  }
  const auto stream = Start(/*corked=*/true);
  EXPECT_FALSE(stream->Write("one"));
  EXPECT_THAT(ReadAll(*stream), IsEmpty());
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(streams_->read().size(), 1);
}

INSTANTIATE_TEST_SUITE_P(Styles, StreamRetryTest,
                         ::testing::ValuesIn(StreamStyles()), StyleParamName);

class BlockingStreamTest : public StreamFixture {
 protected:
  std::unique_ptr<EchoService::Stub> Stub() {
    return EchoService::NewStub(channel_);
  }
};
INSTANTIATE_TEST_SUITE_P(Styles, BlockingStreamTest,
                         ::testing::Values(Style::kSync), StyleParamName);

TEST_P(BlockingStreamTest, AServerStreamIsRetried) {
  Act good;
  good.replies = {"one", "two"};
  Serve({Down(), Down(), good}, Policy(4));
  grpc::ClientContext context;
  EchoRequest request;
  request.set_text("ask");
  const auto stub = Stub();
  const auto reader = stub->ServerStream(&context, request);
  EchoReply reply;
  std::vector<std::string> texts;
  while (reader->Read(&reply)) texts.push_back(reply.text());
  EXPECT_THAT(texts, ElementsAre("one", "two"));
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_THAT(
      streams_->read(),
      ElementsAre(ElementsAre("ask"), ElementsAre("ask"), ElementsAre("ask")));
}

TEST_P(BlockingStreamTest, AClientStreamIsRetried) {
  Serve({Down(), Act()}, Policy(4));
  grpc::ClientContext context;
  EchoReply reply;
  const auto stub = Stub();
  const auto writer = stub->ClientStream(&context, &reply);
  EchoRequest request;
  request.set_text("a");
  EXPECT_TRUE(writer->Write(request));
  EXPECT_TRUE(writer->Write(request));
  writer->WritesDone();
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_EQ(reply.text(), "aa");
  EXPECT_THAT(streams_->read(),
              ElementsAre(ElementsAre("aa"), ElementsAre("aa")));
}

TEST_P(BlockingStreamTest, WhoWaitsForHeadersThatDoNotComeGoesOn) {
  // On both roads: the timeout is what keeps a stream from the inline one.
  for (const char* timeout : {"", ", \"perAttemptTimeout\": \"100s\""}) {
    Serve({Down(1)},
          Policy(3).Guard(absl::StrCat("\"bufferLimitBytes\": 100", timeout)));
    grpc::ClientContext context;
    const auto stub = Stub();
    const auto stream = stub->Bidi(&context);
    EchoRequest request;
    request.set_text(std::string(200, 'x'));
    stream->Write(request);
    stream->WaitForInitialMetadata();
    EXPECT_EQ(stream->Finish().error_message(), "down");
  }
}

TEST_P(BlockingStreamTest, DroppedWithoutFinishItIsCancelledAtTheServer) {
  Act act = Down();
  act.headers = true;
  act.hang = true;
  for (const char* timeout : {"", "\"perAttemptTimeout\": \"100s\""}) {
    Policy policy(4);
    if (*timeout != '\0') policy.Guard(timeout);
    Serve({act}, policy);
    {
      grpc::ClientContext context;
      const auto stub = Stub();
      const auto stream = stub->Bidi(&context);
      stream->WaitForInitialMetadata();
    }
    EXPECT_TRUE(streams_->AwaitCancelled());
    EXPECT_EQ(seen_->decisions().back().reason, Reason::kCallerCancelled);
  }
}

TEST_P(BlockingStreamTest, DroppedDuringABackoffItLeavesNothingBehind) {
  const auto clock = UseManualClock();
  Serve({Down()}, Policy(4).Backoff("100s"));
  {
    grpc::ClientContext context;
    const auto stub = Stub();
    const auto stream = stub->Bidi(&context);
    // Blocks in the backoff: the thread that cancels is what ends it.
    std::thread canceller([&] {
      EXPECT_TRUE(clock->AwaitTimers(1));
      context.TryCancel();
    });
    EchoReply reply;
    EXPECT_FALSE(stream->Read(&reply));
    canceller.join();
  }
  EXPECT_EQ(streams_->read().size(), 1);
}

}  // namespace
}  // namespace retry_guard::end2end
