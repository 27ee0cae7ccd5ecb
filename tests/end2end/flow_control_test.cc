// A stream's flow control reaches from end to end: whoever does not read holds
// up whoever writes. Nothing between them takes messages on the reader's behalf
// beyond what gRPC's own windows hold.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/end2end/kind_fixture.h"

namespace retry_guard::end2end {
namespace {

constexpr int kMessages = 64;
constexpr int kMessageBytes = 32 << 10;
// How many may be written although nobody reads: what fits the buffer limit of
// 256 KiB, and gRPC's own windows and buffers of 64 KiB each.
constexpr int kMostUnread = 16;

// Number `number` of a stream: all that the tests need to know of it is in its
// first byte.
std::string Message(int number) {
  return std::string(kMessageBytes, static_cast<char>('!' + number));
}

std::string Numbers(const std::vector<std::string>& messages) {
  std::string numbers;
  for (const std::string& message : messages) numbers += message.at(0);
  return numbers;
}
std::string AllNumbers() {
  std::vector<std::string> messages;
  for (int i = 0; i < kMessages; ++i) messages.push_back(Message(i));
  return Numbers(messages);
}

class FlowControlTest : public KindTest {
 protected:
  // Calls after those of the script are answered with what they ask.
  void Make(std::vector<Play> script, const Policy& policy) {
    script.push_back(Echo());
    play_->SetScript(std::move(script));
    grpc::ChannelArguments arguments;
    // Windows that do not grow with the bandwidth.
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    MakeChannel(policy, arguments);
  }

  // What `count` is when it has begun, and does not grow any more although
  // other calls on the same connection come and go; or when it is complete.
  int WhereItStops(const std::function<int()>& count) {
    const absl::Time give_up = absl::Now() + absl::Seconds(30);
    while (absl::Now() < give_up) {
      const int before = count();
      for (int i = 0; i < 20; ++i) {
        grpc::ClientContext context;
        EXPECT_TRUE(CallWhole({Shape::kUnary, Style::kSync}, channel_, &context)
                        .status.ok());
      }
      const int now = count();
      if (now == kMessages || (now > 0 && now == before)) return now;
    }
    ADD_FAILURE() << "it does not stop";
    return count();
  }

  int writes_of(int call) const { return play_->seen().at(call).written; }
};

// The application of a stream that sends on a thread of its own.
class Writer {
 public:
  explicit Writer(Stream* stream)
      : thread_([this, stream] {
          for (int i = 0; i < kMessages && stream->Write(Message(i)); ++i) {
            ++written_;
          }
          stream->WritesDone();
        }) {}
  ~Writer() { Await(); }

  void Await() {
    if (thread_.joinable()) thread_.join();
  }
  int written() const { return written_; }

 private:
  std::atomic<int> written_{0};
  std::thread thread_;
};

class SlowServerTest : public FlowControlTest {
 protected:
  // The writes stop, until the server, in its call number `call`, reads on;
  // then all messages arrive.
  void ExpectHoldsUpTheWriter(int call, Stream& stream) {
    Writer writer(&stream);
    ASSERT_TRUE(play_->AwaitMessage(call));
    EXPECT_LE(WhereItStops([&] { return writer.written(); }), kMostUnread);
    play_->Release();
    writer.Await();
    std::string text;
    while (ServerStreams(GetParam().shape) && stream.Read(&text)) {
    }
    EXPECT_TRUE(stream.Finish().ok());
    EXPECT_EQ(Numbers(play_->seen().at(call).messages), AllNumbers());
  }

  // Adds to `play`: reads one message, and the others on Release.
  static Play ReadsOne(Play play = Play()) {
    return play.Read(1).Pause().ReadToEnd().Reply("done");
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, SlowServerTest, ::testing::ValuesIn([] {
                           std::vector<Kind> kinds;
                           for (const Kind& kind : StreamKinds()) {
                             if (ClientStreams(kind.shape)) {
                               kinds.push_back(kind);
                             }
                           }
                           return kinds;
                         }()),
                         KindParamName);

TEST_P(SlowServerTest, HoldsUpTheWriterBeforeTheCallHasCommitted) {
  Make({ReadsOne()}, Policy(4));
  grpc::ClientContext context;
  const auto stream = StartStream(GetParam(), channel_, &context);
  ExpectHoldsUpTheWriter(0, *stream);
}

TEST_P(SlowServerTest, HoldsUpTheWriterAfterTheCallHasCommitted) {
  Make({ReadsOne(Play().Headers())}, Policy(4));
  grpc::ClientContext context;
  const auto stream = StartStream(GetParam(), channel_, &context);
  ASSERT_TRUE(stream->AwaitHeaders());
  ExpectHoldsUpTheWriter(0, *stream);
}

TEST_P(SlowServerTest, HoldsUpTheWriterWhoseMessagesDoNotFitTheBuffer) {
  Make({ReadsOne()}, Policy(4).Guard("\"bufferLimitBytes\": 100"));
  grpc::ClientContext context;
  const auto stream = StartStream(GetParam(), channel_, &context);
  ExpectHoldsUpTheWriter(0, *stream);
}

// With a limit that the messages do not reach, so that nothing commits it.
TEST_P(SlowServerTest, HoldsUpTheWriterInALaterAttempt) {
  Make({Down(), ReadsOne()}, Policy(4).Guard("\"bufferLimitBytes\": 16777216"));
  grpc::ClientContext context;
  const auto stream = StartStream(GetParam(), channel_, &context);
  ExpectHoldsUpTheWriter(1, *stream);
}

class SlowClientTest : public FlowControlTest {
 protected:
  static Play WritesAll() {
    Play play;
    for (int i = 0; i < kMessages; ++i) play.Reply(Message(i));
    return play;
  }

  // Starts a stream and reads from it what the application reads before it
  // stops to; then the server's writes stop, in its call number `call`, until
  // it reads on; then all messages arrive.
  void ExpectHoldsUpTheServer(int call, bool reads_one) {
    grpc::ClientContext context;
    const auto stream = StartStream(GetParam(), channel_, &context);
    std::vector<std::string> messages;
    std::string text;
    if (reads_one && stream->Read(&text)) messages.push_back(text);
    ASSERT_TRUE(play_->AwaitCalls(call + 1));
    EXPECT_LE(WhereItStops([&] { return writes_of(call); }), kMostUnread);
    while (stream->Read(&text)) messages.push_back(text);
    EXPECT_TRUE(stream->Finish().ok());
    EXPECT_EQ(Numbers(messages), AllNumbers());
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, SlowClientTest, ::testing::ValuesIn([] {
                           std::vector<Kind> kinds;
                           for (const Kind& kind : StreamKinds()) {
                             if (ServerStreams(kind.shape)) {
                               kinds.push_back(kind);
                             }
                           }
                           return kinds;
                         }()),
                         KindParamName);

TEST_P(SlowClientTest, HoldsUpTheServerBeforeItHasReadAnything) {
  Make({WritesAll()}, Policy(4));
  ExpectHoldsUpTheServer(0, /*reads_one=*/false);
}

TEST_P(SlowClientTest, HoldsUpTheServerInALaterAttempt) {
  Make({Down(), WritesAll()}, Policy(4));
  ExpectHoldsUpTheServer(1, /*reads_one=*/true);
}

}  // namespace
}  // namespace retry_guard::end2end
