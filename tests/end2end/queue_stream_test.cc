// Streams of the completion-queue API as event loops drive them: several
// operations at a time, Finish among them, on a queue that may be shut down
// while they wait.

#include <grpcpp/generic/generic_stub.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/end2end/kind_fixture.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;
using ::testing::ElementsAre;
using ::testing::Pair;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;
using ::testing::UnorderedElementsAre;

// Each name is the tag of its operation.
constexpr char kStart[] = "start";
constexpr char kWrite[] = "write";
constexpr char kRead[] = "read";
constexpr char kFinish[] = "finish";

// A stream and its queue. Nothing here waits for an operation but Next.
class LooseStream {
 public:
  LooseStream(const Kind& kind, const std::shared_ptr<grpc::Channel>& channel,
              grpc::ClientContext* context) {
    request_.set_text("hi");
    const auto stub = EchoService::NewStub(channel);
    if (kind.style == Style::kGenericQueue) {
      Use(grpc::GenericStub(channel).PrepareCall(
              context, "/retry_guard.testing.EchoService/Bidi", &queue_),
          &bytes_);
    } else if (kind.shape == Shape::kBidi) {
      Use(stub->PrepareAsyncBidi(context, &queue_), &reply_);
    } else {
      Use(stub->PrepareAsyncServerStream(context, request_, &queue_), &reply_);
    }
  }

  // All that there is to send.
  void Write() {
    if (write_ != nullptr) write_();
  }
  void Read() { read_(); }
  void Finish() { finish_(); }

  // Waits for the next tag; its operation is `came` then, and ended `ok`.
  // False: there is none, now that the queue has been shut down.
  bool Next() {
    void* tag = nullptr;
    const auto deadline =
        std::chrono::system_clock::now() + std::chrono::minutes(1);
    const auto next = queue_.AsyncNext(&tag, &ok, deadline);
    if (next == grpc::CompletionQueue::TIMEOUT) {
      // gRPC still owns what the test has on its stack.
      std::fprintf(stderr, "a completion queue hangs\n");
      std::abort();
    }
    if (next == grpc::CompletionQueue::SHUTDOWN) return false;
    came = static_cast<const char*>(tag);
    ended.emplace(came, ok);
    if (came == kRead && ok) texts.push_back(TextThatWasRead());
    return true;
  }

  void ShutDownQueue() { queue_.Shutdown(); }

  std::string came;
  bool ok = false;

  std::multimap<std::string, bool> ended;  // how, by operation
  std::vector<std::string> texts;          // that were read
  grpc::Status status;

 private:
  static void* Tag(const char* name) { return const_cast<char*>(name); }

  // Starts it. `reply`: where it reads to.
  template <typename Of, typename Reply>
  void Use(std::unique_ptr<Of> of, Reply* reply) {
    const std::shared_ptr<Of> stream = std::move(of);
    read_ = [stream, reply] {
      *reply = Reply();
      stream->Read(reply, Tag(kRead));
    };
    finish_ = [this, stream] { stream->Finish(&status, Tag(kFinish)); };
    UseToWrite(stream);
    stream->StartCall(Tag(kStart));
  }
  void UseToWrite(std::shared_ptr<grpc::ClientAsyncReader<EchoReply>>) {}
  void UseToWrite(
      std::shared_ptr<grpc::ClientAsyncReaderWriter<EchoRequest, EchoReply>>
          stream) {
    write_ = [this, stream] { stream->WriteLast(request_, {}, Tag(kWrite)); };
  }
  void UseToWrite(
      std::shared_ptr<grpc::GenericClientAsyncReaderWriter> stream) {
    write_ = [this, stream] {
      const grpc::Slice slice(request_.SerializeAsString());
      stream->WriteLast(grpc::ByteBuffer(&slice, 1), {}, Tag(kWrite));
    };
  }

  std::string TextThatWasRead() {
    if (bytes_.Valid()) {
      (void)grpc::SerializationTraits<EchoReply>::Deserialize(&bytes_, &reply_)
          .ok();
    }
    return reply_.text();
  }

  grpc::CompletionQueue queue_;
  EchoRequest request_;
  EchoReply reply_;
  grpc::ByteBuffer bytes_;
  std::function<void()> write_, read_, finish_;
};

class QueueStreamTest : public KindTest {
 protected:
  // Drives a stream to its end: reads all the time, and asks for Finish when
  // so many messages have been read.
  void ReadAll(LooseStream& stream, int finish_after) {
    const auto read = [&] {
      if (static_cast<int>(stream.texts.size()) == finish_after) {
        stream.Finish();
      }
      stream.Read();
    };
    read();
    bool at_end = false;
    bool finished = false;
    while (!(at_end && finished) && stream.Next()) {
      if (stream.came == kFinish) finished = true;
      if (stream.came == kRead && stream.ok) {
        on_message_();
        read();
      } else if (stream.came == kRead) {
        at_end = true;
      }
    }
    stream.ShutDownQueue();
    while (stream.Next()) {
    }
    // Each once.
    EXPECT_EQ(stream.ended.count(kStart), 1);
    EXPECT_EQ(stream.ended.count(kRead), stream.texts.size() + 1);
    EXPECT_EQ(stream.ended.count(kFinish), 1);
  }

  std::function<void()> on_message_ = [] {};
};
INSTANTIATE_TEST_SUITE_P(
    Kinds, QueueStreamTest,
    ::testing::Values(Kind{Shape::kServerStream, Style::kQueue},
                      Kind{Shape::kBidi, Style::kQueue},
                      Kind{Shape::kBidi, Style::kGenericQueue}),
    KindParamName);

TEST_P(QueueStreamTest, FinishAskedForBeforeAnyReadLosesNoMessage) {
  play_->SetScript({Down(), Play().Reply("one").Reply("two").Reply("three")});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  LooseStream stream(GetParam(), channel_, &context);
  ReadAll(stream, /*finish_after=*/0);
  EXPECT_TRUE(stream.status.ok()) << stream.status.error_message();
  EXPECT_THAT(stream.texts, ElementsAre("one", "two", "three"));
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds()));
}

TEST_P(QueueStreamTest, FinishAskedForInTheMiddleLosesNoMessage) {
  play_->SetScript(
      {Down(), Play().Reply("one").Pause().Reply("two").Reply("three")});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  LooseStream stream(GetParam(), channel_, &context);
  on_message_ = [this] { play_->Release(); };
  ReadAll(stream, /*finish_after=*/1);
  EXPECT_TRUE(stream.status.ok()) << stream.status.error_message();
  EXPECT_THAT(stream.texts, ElementsAre("one", "two", "three"));
}

TEST_P(QueueStreamTest, FinishAskedForBeforeAFailureLosesNoMessage) {
  play_->SetScript({Down(), Play().Reply("one").Reply("two").Ends(
                                {grpc::StatusCode::UNAVAILABLE, "gone"})});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  LooseStream stream(GetParam(), channel_, &context);
  ReadAll(stream, /*finish_after=*/0);
  EXPECT_EQ(stream.status.error_message(), "gone");
  EXPECT_THAT(stream.texts, ElementsAre("one", "two"));
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Returns(Reason::kCommitted)));
}

TEST_P(QueueStreamTest, FinishAskedForBeforeACancellationEndsWithTheRead) {
  play_->SetScript({Down(), Play().Reply("one").Hold()});
  MakeChannel(Policy(4));
  grpc::ClientContext context;
  LooseStream stream(GetParam(), channel_, &context);
  on_message_ = [&context] { context.TryCancel(); };
  ReadAll(stream, /*finish_after=*/0);
  EXPECT_EQ(stream.status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_THAT(stream.texts, ElementsAre("one"));
}

// Whose queue is shut down, and whose channel is dropped, while all of its
// operations wait in a backoff.
class ShutDownQueueTest : public KindTest {
 protected:
  // Lets `then` happen, and waits for the queue to say that it is empty.
  void ShutDownDuringBackoff(
      const std::function<void(testing::ManualClock&, grpc::ClientContext&)>&
          then) {
    const auto clock = UseManualClock();
    play_->SetScript({Down(), Play().Read(1).Reply("one")});
    MakeChannel(Policy(4).Backoff("5s"));
    grpc::ClientContext context;
    LooseStream stream(GetParam(), channel_, &context);
    ASSERT_TRUE(stream.Next());
    stream.Write();
    stream.Read();
    stream.Finish();
    ASSERT_TRUE(clock->AwaitTimers(1));
    stream.ShutDownQueue();
    channel_ = nullptr;
    std::thread other([&] { then(*clock, context); });
    while (stream.Next()) {
    }
    other.join();
    // The first attempt may have been written to, or not.
    EXPECT_EQ(stream.ended.erase(kWrite),
              ClientStreams(GetParam().shape) ? 1 : 0);
    ended_ = stream.ended;
    status_ = stream.status;
    texts_ = stream.texts;
  }

  std::multimap<std::string, bool> ended_;
  grpc::Status status_;
  std::vector<std::string> texts_;
};
INSTANTIATE_TEST_SUITE_P(
    Kinds, ShutDownQueueTest,
    ::testing::Values(Kind{Shape::kServerStream, Style::kQueue},
                      Kind{Shape::kBidi, Style::kQueue},
                      Kind{Shape::kBidi, Style::kGenericQueue}),
    KindParamName);

TEST_P(ShutDownQueueTest, TheStreamGoesOnAndEachTagComesOnce) {
  ShutDownDuringBackoff(
      [](testing::ManualClock& clock, grpc::ClientContext& /*context*/) {
        clock.Advance(absl::Seconds(5));
      });
  EXPECT_THAT(ended_,
              UnorderedElementsAre(Pair(kStart, true), Pair(kRead, true),
                                   Pair(kFinish, true)));
  EXPECT_TRUE(status_.ok()) << status_.error_message();
  EXPECT_THAT(texts_, ElementsAre("one"));
  EXPECT_EQ(play_->calls(), 2);
}

TEST_P(ShutDownQueueTest, TheStreamCanBeCancelledAndEachTagComesOnce) {
  ShutDownDuringBackoff(
      [](testing::ManualClock& /*clock*/, grpc::ClientContext& context) {
        context.TryCancel();
      });
  EXPECT_THAT(ended_,
              UnorderedElementsAre(Pair(kStart, true), Pair(kRead, false),
                                   Pair(kFinish, true)));
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(play_->calls(), 1);
}

}  // namespace
}  // namespace retry_guard::end2end
