// Streams of which there is nothing to retry pass as what they are.

#include <grpcpp/grpcpp.h>

#include "absl/time/clock.h"
#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;
using ::testing::ElementsAre;
using testing::Returns;
using testing::Succeeds;

std::string Bytes(const std::string& text) {
  EchoReply reply;
  reply.set_text(text);
  return reply.SerializeAsString();
}

class StreamTest : public EndToEndTest {
 protected:
  void Serve(std::vector<RawReaction> script, const Policy& policy) {
    raw_ = std::make_unique<RawServer>(std::move(script));
    target_ = raw_->address();
    MakeChannel(policy);
    stub_ = EchoService::NewStub(channel_);
  }

  // Reads to the end; what was read.
  std::vector<std::string> ReadAll(
      grpc::ClientReaderInterface<EchoReply>* reader) {
    std::vector<std::string> texts;
    EchoReply reply;
    while (reader->Read(&reply)) texts.push_back(reply.text());
    return texts;
  }

  // Opens the breaker of `policy`, which takes one failure for that.
  void Trip() {
    grpc::ClientContext context;
    const auto reader = stub_->ServerStream(&context, EchoRequest());
    ReadAll(reader.get());
    reader->Finish();
    ASSERT_EQ(Snapshot().breaker_state, BreakerState::kOpen);
  }

  std::unique_ptr<RawServer> raw_;
  std::unique_ptr<EchoService::Stub> stub_;
};
INSTANTIATE_TEST_SUITE_P(Styles, StreamTest, ::testing::Values(Style::kSync),
                         StyleParamName);

TEST_P(StreamTest, MessagesAndStatusPass) {
  Serve({{{Bytes("one"), Bytes("two")}, grpc::Status::OK}}, Policy(4));
  grpc::ClientContext context;
  const auto reader = stub_->ServerStream(&context, EchoRequest());
  EXPECT_THAT(ReadAll(reader.get()), ElementsAre("one", "two"));
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_THAT(seen_->decisions(), ElementsAre(Succeeds()));
  EXPECT_EQ(Snapshot().calls, 1);
}

TEST_P(StreamTest, AFailureAfterMessagesIsNotRetried) {
  Serve({{{Bytes("one"), Bytes("two")}, Unavailable("gone").status}},
        Policy(4));
  grpc::ClientContext context;
  const auto reader = stub_->ServerStream(&context, EchoRequest());
  EXPECT_THAT(ReadAll(reader.get()), ElementsAre("one", "two"));
  EXPECT_EQ(reader->Finish().error_message(), "gone");
  EXPECT_EQ(raw_->calls(), 1);
}

TEST_P(StreamTest, AnOpenBreakerRefusesEveryKind) {
  Serve({{{}, Unavailable().status}},
        Policy(4).Breaker("\"consecutiveFailures\": 1, \"openFor\": \"100s\", "
                          "\"maxOpenFor\": \"100s\""));
  Trip();
  {
    grpc::ClientContext context;
    const auto reader = stub_->ServerStream(&context, EchoRequest());
    EchoReply reply;
    EXPECT_FALSE(reader->Read(&reply));
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  {
    grpc::ClientContext context;
    EchoReply reply;
    const auto writer = stub_->ClientStream(&context, &reply);
    EXPECT_FALSE(writer->Write(EchoRequest()));
    writer->WritesDone();
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  {
    grpc::ClientContext context;
    EchoReply reply;
    const auto stream = stub_->Bidi(&context);
    EXPECT_FALSE(stream->Write(EchoRequest()));
    EXPECT_FALSE(stream->Read(&reply));
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  EXPECT_EQ(raw_->calls(), 1);
}

TEST_P(StreamTest, CancelledBeforeItStartsItSendsNothing) {
  Serve({{{Bytes("one")}, grpc::Status::OK}}, Policy(4));
  grpc::ClientContext context;
  context.TryCancel();
  const auto reader = stub_->ServerStream(&context, EchoRequest());
  EXPECT_THAT(ReadAll(reader.get()), ElementsAre());
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(raw_->calls(), 0);
}

TEST_P(StreamTest, IsHeldToTheConfigsTimeout) {
  // Does not answer before the client half-closes.
  Serve({{{}, grpc::Status::OK}}, Policy(4).Method("\"timeout\": \"0.2s\""));
  grpc::ClientContext context;
  const auto stream = stub_->Bidi(&context);
  EchoReply reply;
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

}  // namespace
}  // namespace retry_guard::end2end
