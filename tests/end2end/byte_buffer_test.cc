// Calls whose messages are bytes, as proxies make them.

#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::Values;

// What a proxy gets of a call on its completion queue.
struct Answer {
  grpc::Status status;
  std::string reply;
};

std::string StringOf(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::string all;
  if (!bytes.Dump(&slices).ok()) return all;
  for (const grpc::Slice& slice : slices) {
    all.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return all;
}

grpc::ByteBuffer BytesOf(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

// With the response headers asked for first, or not.
class ByteBufferTest : public EndToEnd,
                       public ::testing::WithParamInterface<bool> {
 protected:
  Answer Proxy(const std::shared_ptr<grpc::Channel>& channel,
               const grpc::ByteBuffer& request) {
    grpc::CompletionQueue queue;
    const auto next = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok);
    };
    Answer answer;
    {
      grpc::ClientContext context;
      grpc::ByteBuffer reply;
      const auto call = grpc::GenericStub(channel).PrepareUnaryCall(
          &context, kUnaryMethod, request, &queue);
      call->StartCall();
      if (GetParam()) {
        call->ReadInitialMetadata(&queue);
        next();
      }
      call->Finish(&reply, &answer.status, &queue);
      next();
      if (reply.Valid()) answer.reply = StringOf(reply);
    }
    queue.Shutdown();
    while (next()) {
    }
    return answer;
  }
};
INSTANTIATE_TEST_SUITE_P(HeadersFirst, ByteBufferTest, Values(false, true));

// Nothing is sent then, and the server complains. No reason to end the process.
TEST_P(ByteBufferTest, ThatWasNeverFilledMakesACallWithoutAMessage) {
  for (const MessageCodec codec :
       {MessageCodec::kAuto, MessageCodec::kByteBuffer}) {
    options_.codec = codec;
    MakeChannel(Policy(4));
    const Answer bare = Proxy(BareChannel(), grpc::ByteBuffer());
    const Answer ours = Proxy(channel_, grpc::ByteBuffer());
    EXPECT_FALSE(bare.status.ok());
    EXPECT_EQ(ours.status.error_code(), bare.status.error_code());
    EXPECT_EQ(ours.status.error_message(), bare.status.error_message());
  }
}

// Even where the method is known: the bytes may be in another encoding.
TEST_P(ByteBufferTest, WithTheCodecSaidARepliesBytesPassAsTheyAre) {
  const std::string garbage = "\x0a\xff\xff\xff\xff";
  RawServer raw({{{}, Unavailable().status}, {{garbage}, grpc::Status::OK}});
  target_ = raw.address();
  options_.codec = MessageCodec::kByteBuffer;
  MakeChannel(Policy(4));
  const Answer answer = Proxy(channel_, BytesOf("no protobuf either"));
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.reply, garbage);
  EXPECT_EQ(raw.calls(), 2);
}

}  // namespace
}  // namespace retry_guard::end2end
