#include "retry_guard/call/send_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/call/fake_batch.h"

namespace retry_guard::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

StreamWrite Message(const std::string& text) {
  StreamWrite write;
  write.message = BytesOf(text);
  write.has_message = true;
  return write;
}

StreamWrite HalfClose() {
  StreamWrite write;
  write.closes = true;
  return write;
}

// What an attempt gets to send, when each write goes well; "." a half-close.
std::vector<std::string> SendAll(SendBuffer& buffer) {
  std::vector<std::string> sent;
  while (const StreamWrite* const write = buffer.Next()) {
    sent.push_back(write->has_message ? TextOf(write->message) : "");
    if (write->closes) sent.back() += ".";
    buffer.MarkWritten();
  }
  return sent;
}

TEST(SendBufferTest, GivesEachWriteOnceInOrder) {
  SendBuffer buffer;
  EXPECT_EQ(buffer.Add(Message("one")), 0);
  EXPECT_EQ(buffer.Add(Message("two")), 1);
  EXPECT_EQ(buffer.Add(HalfClose()), 2);
  EXPECT_THAT(SendAll(buffer), ElementsAre("one", "two", "."));
  EXPECT_THAT(SendAll(buffer), IsEmpty());
  EXPECT_EQ(buffer.written(), 3);
}

TEST(SendBufferTest, WithNothingToSendThereIsNothingNext) {
  SendBuffer buffer;
  EXPECT_EQ(buffer.Next(), nullptr);
  buffer.Restart();
  EXPECT_EQ(buffer.Next(), nullptr);
}

TEST(SendBufferTest, ARestartGivesAllOfItAgain) {
  SendBuffer buffer;
  buffer.Add(Message("one"));
  buffer.Add(Message("two"));
  SendAll(buffer);
  buffer.Restart();
  EXPECT_EQ(buffer.written(), 0);
  EXPECT_THAT(SendAll(buffer), ElementsAre("one", "two"));
}

// The attempt ended while a write of it was under way.
TEST(SendBufferTest, ARestartGivesWhatWasNotWrittenToo) {
  SendBuffer buffer;
  buffer.Add(Message("one"));
  buffer.Add(Message("two"));
  EXPECT_NE(buffer.Next(), nullptr);
  buffer.MarkWritten();
  EXPECT_NE(buffer.Next(), nullptr);
  buffer.Restart();
  buffer.Add(Message("three"));
  EXPECT_THAT(SendAll(buffer), ElementsAre("one", "two", "three"));
}

TEST(SendBufferTest, WhatIsAddedWhileAnAttemptSendsComesLast) {
  SendBuffer buffer;
  buffer.Add(Message("one"));
  SendAll(buffer);
  EXPECT_EQ(buffer.Add(Message("two")), 1);
  EXPECT_THAT(SendAll(buffer), ElementsAre("two"));
}

TEST(SendBufferTest, CountsTheBytesOfWhatItKeeps) {
  SendBuffer buffer;
  buffer.Add(Message("12345"));
  buffer.Add(HalfClose());
  EXPECT_EQ(buffer.bytes(), 5);
  SendAll(buffer);
  EXPECT_EQ(buffer.bytes(), 5);  // it may have to be sent again
  buffer.Commit();
  EXPECT_EQ(buffer.bytes(), 0);
}

TEST(SendBufferTest, OnceCommittedItKeepsNothingThatWasWritten) {
  SendBuffer buffer;
  buffer.Commit();
  buffer.Add(Message("12345"));
  EXPECT_EQ(buffer.bytes(), 5);
  EXPECT_NE(buffer.Next(), nullptr);
  EXPECT_EQ(buffer.bytes(), 5);  // under way
  buffer.MarkWritten();
  EXPECT_EQ(buffer.bytes(), 0);
}

TEST(SendBufferTest, ACommitKeepsWhatIsUnderWayAndWhatIsToCome) {
  SendBuffer buffer;
  buffer.Add(Message("one"));
  buffer.Add(Message("two"));
  buffer.Add(Message("three"));
  EXPECT_NE(buffer.Next(), nullptr);
  buffer.MarkWritten();
  EXPECT_NE(buffer.Next(), nullptr);  // "two" is under way
  buffer.Commit();
  EXPECT_EQ(buffer.bytes(), 8);
  buffer.MarkWritten();
  EXPECT_THAT(SendAll(buffer), ElementsAre("three"));
}

TEST(SendBufferTest, NumbersGoOnAfterACommit) {
  SendBuffer buffer;
  buffer.Add(Message("one"));
  SendAll(buffer);
  buffer.Commit();
  EXPECT_EQ(buffer.Add(Message("two")), 1);
  EXPECT_EQ(buffer.written(), 1);
  SendAll(buffer);
  EXPECT_EQ(buffer.written(), 2);
}

TEST(SendBufferTest, WhatWasWrittenElsewhereIsNotGivenAgainBeforeARestart) {
  SendBuffer buffer;
  buffer.AddWritten(Message("one"));
  EXPECT_EQ(buffer.written(), 1);
  EXPECT_EQ(buffer.Next(), nullptr);
  buffer.Restart();
  EXPECT_THAT(SendAll(buffer), ElementsAre("one"));
  buffer.Commit();
  buffer.AddWritten(Message("two"));
  EXPECT_EQ(buffer.bytes(), 0);
  EXPECT_EQ(buffer.Next(), nullptr);
}

TEST(SendBufferTest, WhatIsBeingWrittenStaysWhereItIs) {
  SendBuffer buffer;
  buffer.Add(Message("one"));
  const StreamWrite* const one = buffer.Next();
  for (int i = 0; i < 1000; ++i) buffer.Add(Message("more"));
  buffer.Commit();
  EXPECT_EQ(TextOf(one->message), "one");
}

TEST(SendBufferTest, AMessageAndAHalfCloseInOneStayOne) {
  SendBuffer buffer;
  StreamWrite last = Message("last");
  last.closes = true;
  buffer.Add(last);
  EXPECT_THAT(SendAll(buffer), ElementsAre("last."));
  buffer.Restart();
  EXPECT_THAT(SendAll(buffer), ElementsAre("last."));
}

}  // namespace
}  // namespace retry_guard::internal
