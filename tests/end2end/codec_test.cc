// MessageCodec::kProtobuf is believed: messages are protobufs although nothing
// is known of their method.

#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "tests/end2end/kind_fixture.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using ::testing::ElementsAre;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;

// Of calls whose messages are protobufs, to a service that this program does
// not know.
class CodecTest : public EndToEnd {
 protected:
  using Stub = grpc::TemplatedGenericStub<EchoRequest, EchoReply>;

  CodecTest() { target_ = play_.address(); }

  void Make(MessageCodec codec) {
    options_.codec = codec;
    MakeChannel(Policy(4));
    play_.SetScript({Down("busy"), Echo()});
    request_.set_text("hi");
    seen_->Clear();
  }

  grpc::Status CallUnary() {
    grpc::ClientContext context;
    grpc::Status status;
    absl::Notification done;
    Stub(channel_).UnaryCall(&context, "/not.linked.Service/Unary", {},
                             &request_, &reply_, [&](grpc::Status s) {
                               status = std::move(s);
                               done.Notify();
                             });
    done.WaitForNotification();
    return status;
  }

  // As one that asks for its response headers first: the object for its reply
  // comes when the reply is there.
  grpc::Status CallUnaryHeadersFirst() {
    grpc::ClientContext context;
    grpc::Status status;
    grpc::CompletionQueue queue;
    const auto call = Stub(channel_).PrepareUnaryCall(
        &context, "/not.linked.Service/Unary", request_, &queue);
    call->StartCall();
    call->ReadInitialMetadata(&queue);
    Next(queue);
    call->Finish(&reply_, &status, &queue);
    Next(queue);
    queue.Shutdown();
    while (Next(queue)) {
    }
    return status;
  }

  // Reads one message.
  grpc::Status CallStream() {
    grpc::ClientContext context;
    grpc::Status status;
    grpc::CompletionQueue queue;
    const auto stream = Stub(channel_).PrepareCall(
        &context, "/not.linked.Service/Bidi", &queue);
    stream->StartCall(&queue);
    Next(queue);
    stream->WriteLast(request_, {}, &queue);
    Next(queue);
    stream->Read(&reply_, &queue);
    Next(queue);
    stream->Finish(&status, &queue);
    Next(queue);
    queue.Shutdown();
    while (Next(queue)) {
    }
    return status;
  }

  static bool Next(grpc::CompletionQueue& queue) {
    void* tag = nullptr;
    bool ok = false;  // of no interest: the status tells
    return queue.Next(&tag, &ok);
  }

  // A stream that stays open. Nothing is known of its messages.
  class OpenStream {
   public:
    OpenStream(const std::shared_ptr<grpc::Channel>& channel,
               const EchoRequest& request)
        : stream_(Stub(channel).PrepareCall(
              &context_, "/not.linked.Service/Bidi", &queue_)) {
      stream_->StartCall(&queue_);
      Next(queue_);
      stream_->Write(request, &queue_);
      Next(queue_);
    }
    ~OpenStream() {
      context_.TryCancel();
      grpc::Status status;
      stream_->Finish(&status, &queue_);
      Next(queue_);
      queue_.Shutdown();
      while (Next(queue_)) {
      }
    }
    std::string Read() {
      EchoReply reply;
      stream_->Read(&reply, &queue_);
      Next(queue_);
      return reply.text();
    }

   private:
    grpc::ClientContext context_;
    grpc::CompletionQueue queue_;
    const std::unique_ptr<grpc::ClientAsyncReaderWriter<EchoRequest, EchoReply>>
        stream_;
  };

  PlayServer play_;
  EchoRequest request_;
  EchoReply reply_;
};

TEST_F(CodecTest, AUnaryCallOfAnUnknownMethodIsRetriedIfItsMessagesAreKnown) {
  Make(MessageCodec::kAuto);
  EXPECT_EQ(CallUnary().error_message(), "busy");
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kUnknownMessageType)));

  Make(MessageCodec::kProtobuf);
  EXPECT_TRUE(CallUnary().ok());
  EXPECT_EQ(reply_.text(), "hi");
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds()));
}

TEST_F(CodecTest, SoIsOneWhoseReplyObjectComesAfterItsReply) {
  Make(MessageCodec::kProtobuf);
  EXPECT_TRUE(CallUnaryHeadersFirst().ok());
  EXPECT_EQ(reply_.text(), "hi");
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds()));
}

TEST_F(CodecTest, AStreamOfAnUnknownMethodIsRetriedIfItsMessagesAreKnown) {
  Make(MessageCodec::kAuto);
  EXPECT_EQ(CallStream().error_message(), "busy");
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kUnknownMessageType)));

  Make(MessageCodec::kProtobuf);
  EXPECT_TRUE(CallStream().ok());
  EXPECT_EQ(reply_.text(), "hi");
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds()));
}

// What is not understood is not retried, but bounded all the same.
TEST_F(CodecTest, AnUnknownCallKeepsToItsAttemptTimeout) {
  MakeChannel(Policy(4).Guard(R"("perAttemptTimeout": "0.05s")"));
  play_.SetScript({Silent()});
  EXPECT_EQ(CallUnary().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Returns(Reason::kNotIdempotent)));
}

// When it commits is not seen in time: it would be cut while it goes well.
TEST_F(CodecTest, AnUnknownStreamHasNoAttemptTimeout) {
  const auto clock = UseManualClock();
  MakeChannel(Policy(4).Guard(R"("perAttemptTimeout": "1s")"));
  request_.set_text("hi");
  OpenStream stream(channel_, request_);
  clock->Advance(absl::Seconds(2));
  EXPECT_EQ(stream.Read(), "hi");
}

TEST_F(CodecTest, AnUnknownStreamKeepsToItsTimeout) {
  const auto clock = UseManualClock();
  MakeChannel(Policy(4).Method(R"("timeout": "1s")"));
  play_.SetScript({Silent()});
  OpenStream stream(channel_, request_);
  ASSERT_TRUE(clock->AwaitTimers(1));
  clock->Advance(absl::Seconds(1));
  EXPECT_EQ(stream.Read(), "");
  EXPECT_TRUE(play_.AwaitCancelled(1));
}

TEST_F(CodecTest, AnUnknownStreamThatGoesNowhereIsAFailure) {
  target_ = "127.0.0.1:1";  // nobody listens there
  MakeChannel(Policy(4).Breaker(
      R"("failureRate": 0, "consecutiveFailures": 1, "openFor": "1000s")"));
  EXPECT_EQ(CallStream().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kOpen);
}

// However long it goes on.
TEST_F(CodecTest, AnUnknownStreamThatAnswersIsAProbeThatSucceeds) {
  const auto clock = UseManualClock();
  MakeChannel(Policy(4).Breaker(
      R"("failureRate": 0, "consecutiveFailures": 1, "openFor": "1s")"));
  play_.SetScript({Down(), Echo()});
  CallUnary();
  ASSERT_EQ(Snapshot().breaker_state, BreakerState::kOpen);
  clock->Advance(absl::Seconds(2));
  request_.set_text("hi");
  OpenStream stream(channel_, request_);
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kHalfOpen);
  EXPECT_EQ(stream.Read(), "hi");
  EXPECT_EQ(Snapshot().breaker_state, BreakerState::kClosed);
}

// Of known methods, too.
class ToldCodecTest : public KindTest {};
INSTANTIATE_TEST_SUITE_P(Kinds, ToldCodecTest, ::testing::ValuesIn([] {
                           std::vector<Kind> kinds;
                           for (const Kind& kind : AllKinds()) {
                             if (!IsGeneric(kind.style)) kinds.push_back(kind);
                           }
                           return kinds;
                         }()),
                         KindParamName);

TEST_P(ToldCodecTest, CallsOfEveryKindAreRetried) {
  options_.codec = MessageCodec::kProtobuf;
  play_->SetScript({Down(), Good()});
  MakeChannel(Policy(4));
  const CallResult result = Call();
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.text, "hi");
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds()));
}

}  // namespace
}  // namespace retry_guard::end2end
