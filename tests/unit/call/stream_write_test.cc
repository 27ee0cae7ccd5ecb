#include "retry_guard/call/stream_write.h"

#include <gtest/gtest.h>

#include "tests/unit/call/fake_batch.h"

namespace retry_guard::internal {
namespace {

TEST(StreamWriteTest, OfABatchThatOnlyReceivesIsEmpty) {
  FakeBatch batch({Hook::PRE_RECV_MESSAGE});
  EXPECT_TRUE(WriteOf(&batch).empty());
}

TEST(StreamWriteTest, OfHeadersAloneIsEmpty) {
  FakeBatch batch({Hook::PRE_SEND_INITIAL_METADATA});
  EXPECT_TRUE(WriteOf(&batch).empty());
}

TEST(StreamWriteTest, HasTheMessageAndLeavesTheBatchIts) {
  FakeBatch batch({Hook::PRE_SEND_MESSAGE}, "text");
  const StreamWrite write = WriteOf(&batch);
  EXPECT_TRUE(write.has_message);
  EXPECT_FALSE(write.closes);
  EXPECT_EQ(TextOf(write.message), "text");
  EXPECT_EQ(TextOf(*batch.GetSerializedSendMessage()), "text");
}

TEST(StreamWriteTest, AnEmptyMessageIsAMessage) {
  FakeBatch batch({Hook::PRE_SEND_MESSAGE}, "");
  EXPECT_FALSE(WriteOf(&batch).empty());
}

TEST(StreamWriteTest, HasTheHalfCloseAloneOrWithAMessage) {
  FakeBatch alone({Hook::PRE_SEND_CLOSE});
  EXPECT_TRUE(WriteOf(&alone).closes);
  EXPECT_FALSE(WriteOf(&alone).has_message);
  FakeBatch both({Hook::PRE_SEND_MESSAGE, Hook::PRE_SEND_CLOSE}, "last");
  EXPECT_TRUE(WriteOf(&both).closes);
  EXPECT_TRUE(WriteOf(&both).has_message);
}

TEST(StreamWriteTest, OnlyAMessageCanBeFailed) {
  FakeBatch message({Hook::PRE_SEND_MESSAGE}, "text");
  FailWrite(&message);
  EXPECT_TRUE(message.send_failed());
  // gRPC would abort.
  FakeBatch half_close({Hook::PRE_SEND_CLOSE});
  FailWrite(&half_close);
  EXPECT_FALSE(half_close.send_failed());
}

}  // namespace
}  // namespace retry_guard::internal
