// Replies that no proper server sends, and reply objects that nobody knows.

#include <grpcpp/generic/generic_stub.h>

#include "absl/synchronization/notification.h"
#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using ::testing::ElementsAre;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;

// Not a protobuf: its first field has no end.
constexpr char kGarbage[] = "\x0a\xff\xff\xff\xff";

std::string Bytes(const std::string& text) {
  EchoReply reply;
  reply.set_text(text);
  return reply.SerializeAsString();
}

class ReplyTest : public EndToEndTest {
 protected:
  void Serve(std::vector<RawReaction> script, const Policy& policy) {
    raw_ = std::make_unique<RawServer>(std::move(script));
    target_ = raw_->address();
    MakeChannel(policy);
  }

  std::unique_ptr<RawServer> raw_;
};
RETRY_GUARD_IN_EVERY_STYLE(ReplyTest);

// A bare channel says something different in each style.
TEST_P(ReplyTest, ThatCannotBeDecodedIsInternal) {
  Serve({{{kGarbage}, grpc::Status::OK}}, Policy(4));
  const CallResult result = CallUnary();
  if (IsGeneric(GetParam())) {
    EXPECT_TRUE(result.status.ok());  // bytes are bytes
  } else {
    EXPECT_EQ(result.status.error_code(), grpc::StatusCode::INTERNAL);
  }
  EXPECT_EQ(raw_->calls(), 1);
}

TEST_P(ReplyTest, ThatCannotBeDecodedIsRepeatedIfInternalIs) {
  Serve({{{kGarbage}, grpc::Status::OK}, {{Bytes("good")}, grpc::Status::OK}},
        Policy(4).Codes("\"INTERNAL\""));
  const CallResult result = CallUnary();
  if (IsGeneric(GetParam())) {
    EXPECT_EQ(raw_->calls(), 1);
  } else if (HeadersCommit(GetParam())) {
    EXPECT_EQ(result.status.error_code(), grpc::StatusCode::INTERNAL);
    EXPECT_EQ(raw_->calls(), 1);
  } else {
    EXPECT_TRUE(result.status.ok()) << result.status.error_message();
    EXPECT_EQ(result.text, "good");
  }
}

TEST_P(ReplyTest, ThatIsMissingIsToldAsOnABareChannel) {
  Serve({{{}, grpc::Status::OK}}, Policy(4));
  const CallResult result = CallUnary();
  grpc::ClientContext context;
  const CallResult bare = Call(GetParam(), BareChannel(), &context);
  EXPECT_EQ(result.status.error_code(), bare.status.error_code());
  EXPECT_EQ(result.text, UntouchedReply(GetParam()));
  EXPECT_EQ(raw_->calls(), 2);
}

// A message and then a failure: it is the failure that counts.
TEST_P(ReplyTest, OfAFailedAttemptIsNotLeftInTheReplyObject) {
  Serve({{{Bytes("stale")}, Unavailable().status},
         {{Bytes("fresh")}, grpc::Status::OK}},
        Policy(4));
  const CallResult result = CallUnary();
  if (HeadersCommit(GetParam())) {
    EXPECT_EQ(result.status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(raw_->calls(), 1);
  } else {
    EXPECT_TRUE(result.status.ok());
    EXPECT_EQ(result.text, "fresh");
    EXPECT_EQ(raw_->calls(), 2);
  }
}

TEST_P(ReplyTest, OfAFailedAttemptIsNotTakenForTheLastAnswers) {
  Serve({{{Bytes("stale")}, Unavailable().status},
         {{}, grpc::Status(grpc::StatusCode::NOT_FOUND, "gone")}},
        Policy(4));
  if (HeadersCommit(GetParam())) return;  // see above
  const CallResult result = CallUnary();
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(result.text, "");
}

TEST_P(ReplyTest, AnEmptyOneIsASuccess) {
  Serve({{{""}, grpc::Status::OK}}, Policy(4));
  const CallResult result = CallUnary();
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.text, "");
}

// A call whose reply object is a ByteBuffer that is not empty: its first word
// could be anything's.
grpc::Status CallIntoUsedBuffer(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::GenericStub stub(channel);
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  const grpc::Slice slice("in use");
  grpc::ByteBuffer reply(&slice, 1);
  grpc::ClientContext context;
  grpc::Status status;
  absl::Notification done;
  stub.UnaryCall(&context, kUnaryMethod, {}, &request, &reply,
                 [&](grpc::Status s) {
                   status = std::move(s);
                   done.Notify();
                 });
  done.WaitForNotification();
  return status;
}

// What is not known is not touched, but breaker and observers look on.
TEST(UnknownReplyTest, AReusedByteBufferPassesThroughWithoutRetries) {
  ScriptedServer server({Unavailable("busy")});
  auto seen = std::make_shared<testing::RecordingObserver>();
  InterceptorOptions options;
  options.observers = {seen};
  options.guard = Guard::Create();
  options.service_config_json = Policy(4);
  const auto channel = CreateChannel(
      server.address(), grpc::InsecureChannelCredentials(), options);
  ASSERT_TRUE(channel.ok());
  const grpc::Status status = CallIntoUsedBuffer(*channel);
  EXPECT_EQ(status.error_message(), "busy");
  EXPECT_EQ(server.calls(), 1);
  EXPECT_THAT(seen->decisions(),
              ElementsAre(Returns(Reason::kUnknownMessageType)));
  EXPECT_EQ(server.seen().at(0).Values("retry-owner").size(), 0);
  EXPECT_EQ(options.guard->Snapshot().calls, 1);
}

// Its deadline, known to core, is the context's alone.
TEST(UnknownReplyTest, IsHeldToTheConfigsTimeout) {
  ScriptedServer server({Hold()});
  InterceptorOptions options;
  options.service_config_json = Policy(4).Method("\"timeout\": \"1s\"");
  const auto channel = CreateChannel(
      server.address(), grpc::InsecureChannelCredentials(), options);
  ASSERT_TRUE(channel.ok());
  EXPECT_EQ(CallIntoUsedBuffer(*channel).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(server.calls(), 1);
}

TEST(UnknownReplyTest, IsRetriedIfTheCodecSaysWhatItIs) {
  ScriptedServer server({Unavailable("busy"), Succeed()});
  InterceptorOptions options;
  options.codec = MessageCodec::kByteBuffer;
  options.service_config_json = Policy(4);
  const auto channel = CreateChannel(
      server.address(), grpc::InsecureChannelCredentials(), options);
  ASSERT_TRUE(channel.ok());
  const grpc::Status status = CallIntoUsedBuffer(*channel);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(server.calls(), 2);
}

}  // namespace
}  // namespace retry_guard::end2end
