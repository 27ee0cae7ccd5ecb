// Calls that a server makes on behalf of a call that it received: whatever ends
// that one ends them.

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/end2end/kind_fixture.h"
#include "tests/end2end/middle_server.h"

namespace retry_guard::end2end {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::Le;
using testing::Retries;
using testing::Returns;

class ParentTest : public KindTest {
 protected:
  // Makes one call with the context that it was given, and answers with its
  // status.
  MiddleHandler Forward() {
    return [this](grpc::ServerContextBase* /*inbound*/,
                  std::unique_ptr<grpc::ClientContext> context) {
      grpc::Status status = Call(context.get()).status;
      absl::MutexLock lock(&mu_);
      inner_ = status;
      return status;
    };
  }

  // Starts one call, waits until `ready`, and answers OK while the call goes
  // on.
  MiddleHandler LeaveBehind(std::function<bool()> ready) {
    return [this, ready](grpc::ServerContextBase* /*inbound*/,
                         std::unique_ptr<grpc::ClientContext> context) {
      behind_ = std::thread([this, context = std::move(context)] {
        behind_status_ = Call(context.get()).status;
      });
      return ready() ? grpc::Status::OK
                     : grpc::Status(grpc::StatusCode::INTERNAL, "not ready");
    };
  }

  // How the call that was left behind ended.
  grpc::Status AwaitBehind() {
    behind_.join();
    return behind_status_;
  }

  static grpc::Status CallMiddle(const MiddleServer& middle,
                                 grpc::ClientContext* context) {
    return end2end::Call(Style::kSync, middle.BareChannelTo(), context).status;
  }

  // That attempt ends, and is the last.
  void CancelParentDuringAttempt(int attempt, ServerKind kind) {
    auto middle = std::make_unique<MiddleServer>(kind, Forward());
    grpc::ClientContext context;
    StartedCall outer(Style::kCallback, middle->BareChannelTo(), &context,
                      "hi");
    ASSERT_TRUE(play_->AwaitCalls(attempt));
    context.TryCancel();
    EXPECT_EQ(outer.Await().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(play_->AwaitCancelled(1));
    middle = nullptr;  // the handler has returned
    EXPECT_EQ(inner().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_EQ(play_->calls(), attempt);
  }

  grpc::Status inner() {
    absl::MutexLock lock(&mu_);
    return inner_;
  }

  absl::Mutex mu_;
  grpc::Status inner_ ABSL_GUARDED_BY(mu_);
  std::thread behind_;
  grpc::Status behind_status_;
};
RETRY_GUARD_WITH_EVERY_KIND(ParentTest);

TEST_P(ParentTest, EveryAttemptHasTheParentsDeadline) {
  for (const ServerKind kind : AllServerKinds()) {
    play_->SetScript({Down(), Down(), Good()});
    MakeChannel(Policy(4));
    const auto middle = std::make_unique<MiddleServer>(kind, Forward());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(30));
    EXPECT_TRUE(CallMiddle(*middle, &context).ok());
    const std::vector<PlayedCall> seen = play_->seen();
    EXPECT_EQ(seen.size(), 3);
    for (const PlayedCall& attempt : seen) {
      EXPECT_THAT(attempt.time_left(),
                  AllOf(Gt(absl::Seconds(5)), Le(absl::Seconds(31))));
    }
  }
}

TEST_P(ParentTest, WithoutADeadlineEveryAttemptHasNone) {
  for (const ServerKind kind : AllServerKinds()) {
    play_->SetScript({Down(), Good()});
    MakeChannel(Policy(4));
    const auto middle = std::make_unique<MiddleServer>(kind, Forward());
    grpc::ClientContext context;
    EXPECT_TRUE(CallMiddle(*middle, &context).ok());
    for (const PlayedCall& attempt : play_->seen()) {
      EXPECT_EQ(attempt.time_left(), absl::InfiniteDuration());
    }
  }
}

TEST_P(ParentTest, CancelledDuringAnAttemptEndsIt) {
  for (const ServerKind kind : AllServerKinds()) {
    play_->SetScript({Down(), Silent()});
    MakeChannel(Policy(4));
    CancelParentDuringAttempt(2, kind);
  }
}

// A backend that goes away may answer so; the parent has nothing to do with it.
TEST_P(ParentTest, CancelledByTheServerIsRetriedIfListed) {
  for (const ServerKind kind : AllServerKinds()) {
    play_->SetScript(
        {Play().Ends({grpc::StatusCode::CANCELLED, "going"}), Good()});
    MakeChannel(Policy(4).Codes(R"("CANCELLED")"));
    const auto middle = std::make_unique<MiddleServer>(kind, Forward());
    grpc::ClientContext context;
    EXPECT_TRUE(CallMiddle(*middle, &context).ok());
    EXPECT_EQ(play_->calls(), 2);
  }
}

TEST_P(ParentTest, CancelledByTheParentIsNotRetriedEvenIfListed) {
  for (const ServerKind kind : AllServerKinds()) {
    play_->SetScript({Silent()});
    MakeChannel(Policy(4).Codes(R"("CANCELLED")").Backoff("1000s"));
    CancelParentDuringAttempt(1, kind);
  }
}

TEST_P(ParentTest, CancelledDuringABackoffEndsItAtOnce) {
  for (const ServerKind kind : AllServerKinds()) {
    const auto clock = UseManualClock();
    options_.guard = nullptr;
    seen_->Clear();
    play_->SetScript({Down(), Good()});
    MakeChannel(Policy(4).Backoff("1000s"));
    auto middle = std::make_unique<MiddleServer>(kind, Forward());
    grpc::ClientContext context;
    StartedCall outer(Style::kCallback, middle->BareChannelTo(), &context,
                      "hi");
    ASSERT_TRUE(clock->AwaitTimers(1));
    context.TryCancel();
    outer.Await();
    middle = nullptr;
    EXPECT_EQ(inner().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_EQ(play_->calls(), 1);
    EXPECT_EQ(Snapshot().budget_left, 10);
    EXPECT_THAT(seen_->decisions(),
                ElementsAre(Retries(), Returns(Reason::kCallerCancelled)));
  }
}

// Whether the deadline or the cancellation that follows it is noticed first is
// up to gRPC.
TEST_P(ParentTest, WhoseDeadlinePassesDuringABackoffEndsIt) {
  for (const ServerKind kind : AllServerKinds()) {
    const auto clock = UseManualClock();
    play_->SetScript({Down("busy"), Good()});
    MakeChannel(Policy(4).Backoff("1000s"));
    auto middle = std::make_unique<MiddleServer>(kind, Forward());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(300));
    CallMiddle(*middle, &context);
    middle = nullptr;
    EXPECT_THAT(inner().error_code(), AnyOf(grpc::StatusCode::UNAVAILABLE,
                                            grpc::StatusCode::CANCELLED));
    EXPECT_EQ(play_->calls(), 1);
  }
}

TEST_P(ParentTest, ThatHasEndedCancelsABackoffThatItLeftBehind) {
  for (const ServerKind kind : AllServerKinds()) {
    const auto clock = UseManualClock();
    play_->SetScript({Down(), Good()});
    MakeChannel(Policy(4).Backoff("1000s"));
    const auto middle = std::make_unique<MiddleServer>(
        kind, LeaveBehind([&] { return clock->AwaitTimers(1); }));
    grpc::ClientContext context;
    EXPECT_TRUE(CallMiddle(*middle, &context).ok());
    EXPECT_EQ(AwaitBehind().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_EQ(play_->calls(), 1);
  }
}

// With a retry of CANCELLED there is a next attempt, whose parent is gone: it
// ends at once, and cleanly.
TEST_P(ParentTest, ThatHasEndedCancelsAttemptsThatStartLater) {
  for (const ServerKind kind : AllServerKinds()) {
    play_->SetScript({Silent()});
    MakeChannel(Policy(4).Codes("\"CANCELLED\""));
    const auto middle = std::make_unique<MiddleServer>(
        kind, LeaveBehind([&] { return play_->AwaitCalls(1); }));
    grpc::ClientContext context;
    EXPECT_TRUE(CallMiddle(*middle, &context).ok());
    EXPECT_EQ(AwaitBehind().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_EQ(play_->calls(), 1);
  }
}

}  // namespace
}  // namespace retry_guard::end2end
