// What a stream receives goes into the application's own objects, whatever they
// are.

#include <grpcpp/generic/generic_stub.h>

#include <string>
#include <vector>

#include "tests/end2end/kind_fixture.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A generic stream whose application owns its reply object.
class StreamRepliesTest : public EndToEnd {
 protected:
  // Reads to the end, each time into `reply`; the texts.
  std::vector<std::string> ReadInto(grpc::ByteBuffer* reply,
                                    const std::string& method = "Bidi") {
    grpc::CompletionQueue queue;
    const auto next = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    std::vector<std::string> texts;
    grpc::ClientContext context;
    const auto stream = grpc::GenericStub(channel_).PrepareCall(
        &context, "/retry_guard.testing.EchoService/" + method, &queue);
    stream->StartCall(&queue);
    next();
    for (stream->Read(reply, &queue); next(); stream->Read(reply, &queue)) {
      grpc::ByteBuffer copy = *reply;
      EchoReply decoded;
      EXPECT_TRUE(
          grpc::SerializationTraits<EchoReply>::Deserialize(&copy, &decoded)
              .ok());
      texts.push_back(decoded.text());
    }
    stream->Finish(&status_, &queue);
    next();
    queue.Shutdown();
    while (next()) {
    }
    return texts;
  }

  void Serve(const std::vector<Play>& script, const Policy& policy) {
    play_.SetScript(script);
    target_ = play_.address();
    MakeChannel(policy);
  }

  PlayServer play_;
  grpc::Status status_;
};

// Once it is used, a ByteBuffer does not look like one any more.
TEST_F(StreamRepliesTest, OneByteBufferMayTakeThemAll) {
  Serve({Down(), Play().Reply("one").Reply("two").Reply("three")}, Policy(4));
  grpc::ByteBuffer reply;
  EXPECT_THAT(ReadInto(&reply), ElementsAre("one", "two", "three"));
  EXPECT_TRUE(status_.ok()) << status_.error_message();
  EXPECT_EQ(play_.calls(), 2);
}

// That of another call, say: it cannot be told from a message of any type.
TEST_F(StreamRepliesTest, AByteBufferThatIsNotEmptyIsAnErrorAndNoCrash) {
  Serve({Play().Reply("one")}, Policy(4));
  const grpc::Slice slice("used");
  grpc::ByteBuffer reply(&slice, 1);
  EXPECT_THAT(ReadInto(&reply), IsEmpty());
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(status_.error_message(), HasSubstr("codec"));
  EXPECT_EQ(Snapshot().attempts, 1);
}

TEST_F(StreamRepliesTest, WithTheCodecSaidAByteBufferMayBeAnything) {
  options_.codec = MessageCodec::kByteBuffer;
  Serve({Down(), Play().Reply("one").Reply("two")}, Policy(4));
  const grpc::Slice slice("used");
  grpc::ByteBuffer reply(&slice, 1);
  EXPECT_THAT(ReadInto(&reply), ElementsAre("one", "two"));
  EXPECT_TRUE(status_.ok()) << status_.error_message();
}

// Of a method that is not linked in nothing is known: the stream passes by.
TEST_F(StreamRepliesTest, OfAnUnknownMethodPassUntouchedAndAreNotRetried) {
  Serve({Play().Reply("one").Ends({grpc::StatusCode::UNAVAILABLE, "down"})},
        Policy(4));
  grpc::ByteBuffer reply;
  EXPECT_THAT(ReadInto(&reply, "NotThere"), ElementsAre("one"));
  EXPECT_EQ(status_.error_message(), "down");
  EXPECT_EQ(play_.calls(), 1);
}

// Replies that are not protobufs.
class UndecodableReplyTest : public EndToEnd,
                             public ::testing::WithParamInterface<Kind> {
 protected:
  void SetUp() override {
    if (IsGeneric(GetParam().style)) GTEST_SKIP() << "bytes are bytes";
    target_ = raw_.address();
    MakeChannel(Policy(4).Codes(R"("INTERNAL")"));
  }

  RawServer raw_{{{{"\x0a\xff\xff\xff\xff"}, grpc::Status::OK}}};
};
RETRY_GUARD_WITH_EVERY_STREAM(UndecodableReplyTest);

// The one reply of a client stream makes it INTERNAL, for all who look at it.
// In the others it ends the reading, and the status is the server's.
TEST_P(UndecodableReplyTest, IsToldToCallerAndObserverAlike) {
  const bool one_reply = !ServerStreams(GetParam().shape);
  grpc::ClientContext context;
  const CallResult result = CallWhole(GetParam(), channel_, &context);
  EXPECT_EQ(result.status.error_code(),
            one_reply ? grpc::StatusCode::INTERNAL : grpc::StatusCode::OK);
  EXPECT_EQ(raw_.calls(), 1);
  ASSERT_EQ(seen_->decisions().size(), 1);
  EXPECT_THAT(seen_->decisions(),
              Each(Field(&testing::RecordedDecision::code,
                         one_reply ? absl::StatusCode::kInternal
                                   : absl::StatusCode::kOk)));
  EXPECT_EQ(Snapshot().attempts_to_success[1], one_reply ? 0 : 1);
  EXPECT_EQ(Snapshot().refusals.size(), one_reply ? 1 : 0);
}

}  // namespace
}  // namespace retry_guard::end2end
