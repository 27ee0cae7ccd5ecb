#include "retry_guard/call/stream_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/unit/call/fake_batch.h"

namespace retry_guard::internal {
namespace {

using ::testing::AllOf;
using ::testing::Field;
using ::testing::ResultOf;
using Kind = StreamProgress::Kind;
using Step = StreamProgress::Step;

constexpr int64_t kNoLimit = 1 << 20;

StreamWrite Message(const std::string& text) {
  StreamWrite write;
  write.message = BytesOf(text);
  write.has_message = true;
  return write;
}

auto Is(Kind kind) { return Field("kind", &Step::kind, kind); }

auto For(Kind kind, const FakeBatch& batch) {
  return AllOf(Is(kind), Field("batch", &Step::batch, &batch));
}

auto For(Kind kind, const FakeBatch& batch, bool ok) {
  return AllOf(For(kind, batch), Field("ok", &Step::ok, ok));
}

auto Writes(const std::string& text) {
  return AllOf(
      Is(Kind::kWrite),
      ResultOf(
          "the message",
          [](const Step& step) { return TextOf(step.write->message); }, text));
}

class StreamProgressTest : public ::testing::Test {
 protected:
  // Returns what goes out with the headers; "" if nothing.
  std::string StartAttempt(int64_t buffer_limit = kNoLimit) {
    const StreamWrite* const first = progress_.AttemptStarts(buffer_limit);
    progress_.AttemptRuns();
    return first != nullptr ? TextOf(first->message) : "";
  }

  void Receive(FakeBatch* batch) {
    progress_.Receive(batch, BatchWants(batch));
  }

  // The server has answered with nothing but a status.
  void EndWithoutAnAnswer() {
    progress_.HeadersCame(/*trailers_only=*/true);
    progress_.StatusCame();
  }

  StreamProgress progress_;
  FakeBatch write_;
  FakeBatch write2_;
  FakeBatch headers_{{Hook::PRE_RECV_INITIAL_METADATA}};
  FakeBatch read_{{Hook::PRE_RECV_MESSAGE}};
  FakeBatch finish_{{Hook::PRE_RECV_STATUS}};
};

TEST_F(StreamProgressTest, HasNothingToDoAtFirst) {
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
}

TEST_F(StreamProgressTest, WhatItStartsWithGoesOutWithTheHeaders) {
  progress_.StartWith(Message("first"));
  EXPECT_EQ(StartAttempt(), "first");
  progress_.WriteDone(true);
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));  // no batch waits for it
}

TEST_F(StreamProgressTest, NothingIsWrittenWhileTheHeadersAreUnderWay) {
  StartAttempt();
  progress_.Write(&write_, Message("one"));
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
  progress_.WriteDone(true);
  EXPECT_THAT(progress_.Next(), Writes("one"));
}

TEST_F(StreamProgressTest, NothingIsGivenToAnAttemptThatIsStillBeingStarted) {
  progress_.AttemptStarts(kNoLimit);
  progress_.WriteDone(true);
  progress_.Write(&write_, Message("one"));
  Receive(&read_);
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
  progress_.AttemptRuns();
  EXPECT_THAT(progress_.Next(), Writes("one"));
  EXPECT_THAT(progress_.Next(), For(Kind::kRead, read_));
}

TEST_F(StreamProgressTest, AWriteIsDoneOnceTheAttemptHasWrittenIt) {
  StartAttempt();
  progress_.WriteDone(true);
  progress_.Write(&write_, Message("one"));
  progress_.Write(&write2_, Message("two"));
  EXPECT_THAT(progress_.Next(), Writes("one"));
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));  // one at a time
  progress_.WriteDone(true);
  EXPECT_THAT(progress_.Next(), For(Kind::kSent, write_, true));
  EXPECT_THAT(progress_.Next(), Writes("two"));
  progress_.WriteDone(true);
  EXPECT_THAT(progress_.Next(), For(Kind::kSent, write2_, true));
}

TEST_F(StreamProgressTest, ReadsAMessageForEachThatIsAskedFor) {
  StartAttempt();
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
  Receive(&read_);
  EXPECT_THAT(progress_.Next(), For(Kind::kRead, read_));
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));  // it is under way
  progress_.Commit();
  progress_.ReadDone(/*ok=*/true, /*got_message=*/true);
  EXPECT_THAT(progress_.Next(), For(Kind::kReceived, read_, true));
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
}

TEST_F(StreamProgressTest, WhatWaitsForLessGoesOnFirst) {
  StartAttempt();
  Receive(&finish_);
  Receive(&headers_);
  progress_.Commit();
  progress_.HeadersCame(/*trailers_only=*/false);
  EXPECT_THAT(progress_.Next(), For(Kind::kReceived, headers_));
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
}

TEST_F(StreamProgressTest, WhatAnUncommittedAttemptLacksIsNotToldYet) {
  StartAttempt();
  Receive(&headers_);
  Receive(&read_);
  EXPECT_THAT(progress_.Next(), For(Kind::kRead, read_));
  progress_.HeadersCame(/*trailers_only=*/true);
  progress_.ReadDone(/*ok=*/true, /*got_message=*/false);
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
  progress_.Commit();
  EXPECT_THAT(progress_.Next(), For(Kind::kReceived, headers_, false));
  EXPECT_THAT(progress_.Next(), For(Kind::kReceived, read_, false));
}

TEST_F(StreamProgressTest, AnAttemptIsOverWhenAllItsOperationsHaveReported) {
  StartAttempt();
  Receive(&read_);
  EXPECT_THAT(progress_.Next(), For(Kind::kRead, read_));
  progress_.StatusCame();
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
  progress_.ReadDone(/*ok=*/true, /*got_message=*/false);
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
  progress_.WriteDone(false);
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
  EXPECT_FALSE(progress_.attempt_is_over());
  progress_.HeadersCame(/*trailers_only=*/true);
  EXPECT_THAT(progress_.Next(), Is(Kind::kOver));
  EXPECT_TRUE(progress_.attempt_is_over());
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));  // said once
}

// An interceptor after ours may answer with the status before the messages.
TEST_F(StreamProgressTest, ACommittedAttemptIsReadToItsEnd) {
  StartAttempt();
  progress_.WriteDone(true);
  progress_.Commit();
  progress_.HeadersCame(/*trailers_only=*/false);
  progress_.StatusCame();
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
  Receive(&read_);
  EXPECT_THAT(progress_.Next(), For(Kind::kRead, read_));
  progress_.ReadDone(/*ok=*/true, /*got_message=*/false);
  EXPECT_THAT(progress_.Next(), For(Kind::kReceived, read_, false));
  EXPECT_THAT(progress_.Next(), Is(Kind::kOver));
}

TEST_F(StreamProgressTest,
       ACommittedAttemptNeedNotBeReadOnceTheStatusIsAskedFor) {
  StartAttempt();
  progress_.WriteDone(true);
  progress_.Commit();
  progress_.HeadersCame(/*trailers_only=*/false);
  progress_.StatusCame();
  Receive(&finish_);
  EXPECT_THAT(progress_.Next(), Is(Kind::kOver));
}

TEST_F(StreamProgressTest, TheReplyOfAClientStreamIsReadBeforeItIsOver) {
  FakeBatch both({Hook::PRE_RECV_MESSAGE, Hook::PRE_RECV_STATUS});
  StartAttempt();
  progress_.WriteDone(true);
  progress_.Commit();
  progress_.HeadersCame(/*trailers_only=*/false);
  progress_.StatusCame();
  Receive(&both);
  EXPECT_THAT(progress_.Next(), For(Kind::kRead, both));
  progress_.ReadDone(/*ok=*/true, /*got_message=*/true);
  EXPECT_THAT(progress_.Next(), Is(Kind::kOver));
  progress_.SetAnswered();
  EXPECT_THAT(progress_.Next(), For(Kind::kReceived, both, true));
}

TEST_F(StreamProgressTest, EveryAttemptSendsAllOfItButAWriteIsDoneOnce) {
  progress_.StartWith(Message("first"));
  StartAttempt();
  progress_.WriteDone(true);
  progress_.Write(&write_, Message("one"));
  EXPECT_THAT(progress_.Next(), Writes("one"));
  progress_.WriteDone(true);
  EXPECT_THAT(progress_.Next(), For(Kind::kSent, write_, true));
  EndWithoutAnAnswer();
  EXPECT_THAT(progress_.Next(), Is(Kind::kOver));
  progress_.Retry();
  progress_.Write(&write2_, Message("two"));  // during the backoff
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));

  EXPECT_EQ(StartAttempt(), "first");
  progress_.WriteDone(true);
  EXPECT_THAT(progress_.Next(), Writes("one"));
  progress_.WriteDone(true);
  EXPECT_THAT(progress_.Next(), Writes("two"));
  progress_.WriteDone(true);
  EXPECT_THAT(progress_.Next(), For(Kind::kSent, write2_, true));
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
}

TEST_F(StreamProgressTest, ANewAttemptKnowsNothingOfTheOneBefore) {
  StartAttempt();
  Receive(&read_);
  progress_.WriteDone(false);
  EXPECT_THAT(progress_.Next(), For(Kind::kRead, read_));
  progress_.ReadDone(/*ok=*/false, /*got_message=*/false);
  EXPECT_TRUE(progress_.undecodable());
  EndWithoutAnAnswer();
  EXPECT_THAT(progress_.Next(), Is(Kind::kOver));
  progress_.Retry();
  StartAttempt();
  EXPECT_FALSE(progress_.undecodable());
  EXPECT_FALSE(progress_.attempt_is_over());
  EXPECT_THAT(progress_.Next(), For(Kind::kRead, read_));
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
}

TEST_F(StreamProgressTest, AWriteThatFailedIsToldWhenNoAttemptCanRepeatIt) {
  StartAttempt();
  progress_.WriteDone(true);
  progress_.Write(&write_, Message("one"));
  EXPECT_THAT(progress_.Next(), Writes("one"));
  progress_.WriteDone(false);
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
  progress_.Commit();
  EXPECT_THAT(progress_.Next(), For(Kind::kSent, write_, false));
}

TEST_F(StreamProgressTest, AfterAFailedWriteNothingIsWritten) {
  StartAttempt();
  progress_.WriteDone(false);
  progress_.Write(&write_, Message("one"));
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
}

TEST_F(StreamProgressTest, CommitsWhenMoreIsKeptThanMayBe) {
  StartAttempt(/*buffer_limit=*/6);
  progress_.WriteDone(true);
  progress_.Write(&write_, Message("123456"));
  EXPECT_FALSE(progress_.committed());
  progress_.Write(&write2_, Message("7"));
  EXPECT_TRUE(progress_.committed());
}

TEST_F(StreamProgressTest, DoesNotCommitToAnAttemptThatIsOver) {
  StartAttempt(/*buffer_limit=*/6);
  progress_.WriteDone(true);
  EndWithoutAnAnswer();
  EXPECT_THAT(progress_.Next(), Is(Kind::kOver));
  progress_.Write(&write_, Message("1234567"));
  EXPECT_FALSE(progress_.committed());
  progress_.Retry();
  EXPECT_FALSE(progress_.committed());
  EXPECT_EQ(StartAttempt(/*buffer_limit=*/6), "1234567");
  EXPECT_TRUE(progress_.committed());
}

TEST_F(StreamProgressTest, OnceAnsweredEveryBatchGoesOn) {
  StartAttempt();
  progress_.WriteDone(true);
  progress_.Write(&write_, Message("one"));
  EXPECT_THAT(progress_.Next(), Writes("one"));
  Receive(&headers_);
  Receive(&finish_);
  progress_.WriteDone(false);
  EndWithoutAnAnswer();
  EXPECT_THAT(progress_.Next(), Is(Kind::kOver));
  progress_.SetAnswered();
  EXPECT_THAT(progress_.Next(), For(Kind::kSent, write_, false));
  EXPECT_THAT(progress_.Next(), For(Kind::kReceived, headers_, false));
  EXPECT_THAT(progress_.Next(), For(Kind::kReceived, finish_, false));
  Receive(&read_);  // later, too
  EXPECT_THAT(progress_.Next(), For(Kind::kReceived, read_, false));
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
}

// An application that does not look at what its writes report may write on.
TEST_F(StreamProgressTest, WhatArrivesNowhereIsNotKept) {
  StartAttempt();
  progress_.Commit();
  progress_.WriteDone(false);
  progress_.Write(&write_, Message("one"));
  EXPECT_THAT(progress_.Next(), For(Kind::kSent, write_, false));
  EndWithoutAnAnswer();
  Receive(&finish_);
  EXPECT_THAT(progress_.Next(), Is(Kind::kOver));
  progress_.SetAnswered();
  EXPECT_THAT(progress_.Next(), For(Kind::kReceived, finish_));
  progress_.Write(&write2_, Message("two"));
  EXPECT_THAT(progress_.Next(), For(Kind::kSent, write2_, false));
  EXPECT_EQ(progress_.kept_bytes(), 0);
}

TEST_F(StreamProgressTest, AWriteThatWasDoneIsToldSoEvenAfterTheAnswer) {
  StartAttempt();
  progress_.WriteDone(true);
  progress_.Write(&write_, Message("one"));
  EXPECT_THAT(progress_.Next(), Writes("one"));
  EndWithoutAnAnswer();
  progress_.WriteDone(true);
  progress_.SetAnswered();
  EXPECT_THAT(progress_.Next(), For(Kind::kSent, write_, true));
}

TEST_F(StreamProgressTest, HeadersAndAMessageAreToldTogetherIfAskedForSo) {
  FakeBatch both({Hook::PRE_RECV_INITIAL_METADATA, Hook::PRE_RECV_MESSAGE});
  StartAttempt();
  Receive(&both);
  EXPECT_THAT(progress_.Next(), For(Kind::kRead, both));
  progress_.Commit();
  progress_.HeadersCame(/*trailers_only=*/false);
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
  progress_.ReadDone(/*ok=*/true, /*got_message=*/true);
  EXPECT_THAT(progress_.Next(), For(Kind::kReceived, both, true));
}

TEST_F(StreamProgressTest, DroppedBetweenTwoAttemptsThereIsNothingToDo) {
  StartAttempt();
  progress_.WriteDone(true);
  EndWithoutAnAnswer();
  EXPECT_THAT(progress_.Next(), Is(Kind::kOver));
  progress_.Retry();
  progress_.Drop();
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
}

TEST_F(StreamProgressTest, OnceDroppedItStartsNothingAndOnlyWaits) {
  StartAttempt();
  progress_.WriteDone(true);
  progress_.Write(&write_, Message("one"));
  Receive(&read_);
  progress_.Drop();
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
  EndWithoutAnAnswer();
  EXPECT_THAT(progress_.Next(), Is(Kind::kDropped));
  EXPECT_THAT(progress_.Next(), Is(Kind::kNothing));
}

TEST_F(StreamProgressTest, DroppedWhileCommittedItNeedNotBeReadToItsEnd) {
  StartAttempt();
  progress_.WriteDone(true);
  progress_.Commit();
  progress_.HeadersCame(/*trailers_only=*/false);
  progress_.Drop();
  progress_.StatusCame();
  EXPECT_THAT(progress_.Next(), Is(Kind::kDropped));
}

TEST_F(StreamProgressTest, GoesOnWithWhatWasSentElsewhere) {
  SendBuffer sends;
  sends.Add(Message("one"));
  sends.Add(Message("two"));
  sends.Next();
  sends.MarkWritten();
  progress_ = StreamProgress(std::move(sends));
  EXPECT_EQ(StartAttempt(), "one");
  progress_.WriteDone(true);
  EXPECT_THAT(progress_.Next(), Writes("two"));
}

}  // namespace
}  // namespace retry_guard::internal
