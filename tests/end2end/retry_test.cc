// What is retried, how often, and what the caller gets in the end.

#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;

class RetryTest : public EndToEndTest {};
INSTANTIATE_TEST_SUITE_P(Styles, RetryTest, ::testing::ValuesIn(AllStyles()),
                         StyleParamName);

TEST_P(RetryTest, SucceedsAfterTwoFailures) {
  server_.SetScript({Fail(grpc::StatusCode::UNAVAILABLE, "one"),
                     Fail(grpc::StatusCode::UNAVAILABLE, "two"), Succeed()});
  MakeChannel(Policy(4));
  const CallResult result = CallUnary();
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.text, "hi");
  EXPECT_EQ(server_.calls(), 3);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Retries(), Succeeds()));
  const GuardSnapshot snapshot = Snapshot();
  EXPECT_EQ(snapshot.calls, 1);
  EXPECT_EQ(snapshot.attempts, 3);
  EXPECT_EQ(snapshot.retries, 2);
  EXPECT_EQ(snapshot.attempts_to_success[3], 1);
  EXPECT_THAT(snapshot.refusals, IsEmpty());
}

}  // namespace
}  // namespace retry_guard::end2end
