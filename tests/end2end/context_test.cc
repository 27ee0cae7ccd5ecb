// Whatever the caller has set on its context, each attempt has: a server cannot
// tell one from a call on a bare channel but by our own marks.

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/end2end/interceptors.h"
#include "tests/end2end/kind_fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::Le;
using testing::Retries;
using testing::Returns;
using testing::Succeeds;

constexpr int kAttempts = 3;

class ContextTest : public KindTest {
 protected:
  using Setup = std::function<void(grpc::ClientContext*)>;

  // The attempts of a call that succeeds with its third, after one call on a
  // bare channel; both with contexts that `setup` has seen.
  struct Both {
    PlayedCall bare;
    std::vector<PlayedCall> attempts;
  };
  Both CallBoth(const Setup& setup, const std::string& text = "hi") {
    Both both;
    {
      grpc::ClientContext context;
      setup(&context);
      EXPECT_TRUE(Call(BareChannel(), &context, text).status.ok());
      both.bare = play_->seen().at(0);
    }
    play_->SetScript({Down(), Down(), Good()});
    MakeChannel(Policy(kAttempts));
    grpc::ClientContext context;
    setup(&context);
    EXPECT_TRUE(Call(&context, text).status.ok());
    both.attempts = play_->seen();
    EXPECT_EQ(both.attempts.size(), kAttempts);
    return both;
  }

  static std::multimap<std::string, std::string> WithoutMarks(
      std::multimap<std::string, std::string> metadata) {
    for (const char* const key :
         {"retry-owner", "retry-attempt", "retry-remaining-ms",
          "grpc-previous-rpc-attempts"}) {
      metadata.erase(key);
    }
    return metadata;
  }
};
RETRY_GUARD_WITH_EVERY_KIND(ContextTest);

TEST_P(ContextTest, MetadataReachesEveryAttemptUnchanged) {
  const Both both = CallBoth([](grpc::ClientContext* context) {
    context->AddMetadata("key", "value");
    context->AddMetadata("twice", "one");
    context->AddMetadata("twice", "two");
    context->AddMetadata("bytes-bin", std::string("\0\x01\xff\n", 4));
    context->AddMetadata("empty", "");
    context->AddMetadata("large", std::string(4000, 'x'));
  });
  EXPECT_EQ(both.bare.Values("twice").size(), 2);
  for (const PlayedCall& attempt : both.attempts) {
    EXPECT_EQ(WithoutMarks(attempt.metadata), both.bare.metadata);
  }
}

TEST_P(ContextTest, WithNothingSetNothingIsAdded) {
  const Both both = CallBoth([](grpc::ClientContext*) {});
  for (const PlayedCall& attempt : both.attempts) {
    EXPECT_EQ(WithoutMarks(attempt.metadata), both.bare.metadata);
    EXPECT_EQ(attempt.authority, both.bare.authority);
    EXPECT_EQ(attempt.compression, both.bare.compression);
    EXPECT_EQ(attempt.time_left(), absl::InfiniteDuration());
  }
}

TEST_P(ContextTest, TheDeadlineReachesEveryAttempt) {
  const auto deadline =
      std::chrono::system_clock::now() + std::chrono::seconds(20);
  const Both both = CallBoth([deadline](grpc::ClientContext* context) {
    context->set_deadline(deadline);
  });
  for (const PlayedCall& attempt : both.attempts) {
    // gRPC rounds up on the wire, and a message takes its time.
    const absl::Duration difference =
        absl::FromChrono(attempt.deadline - deadline);
    EXPECT_THAT(difference,
                AllOf(Gt(absl::Milliseconds(-10)), Le(absl::Seconds(5))));
  }
}

TEST_P(ContextTest, TheAuthorityReachesEveryAttempt) {
  const Both both = CallBoth([](grpc::ClientContext* context) {
    context->set_authority("other.example");
  });
  EXPECT_EQ(both.bare.authority, "other.example");
  for (const PlayedCall& attempt : both.attempts) {
    EXPECT_EQ(attempt.authority, "other.example");
  }
}

TEST_P(ContextTest, CompressionReachesEveryAttempt) {
  const Both both = CallBoth(
      [](grpc::ClientContext* context) {
        context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
      },
      std::string(10'000, 'x'));
  EXPECT_EQ(both.bare.compression, GRPC_COMPRESS_GZIP);
  for (const PlayedCall& attempt : both.attempts) {
    EXPECT_EQ(attempt.compression, GRPC_COMPRESS_GZIP);
    EXPECT_EQ(WithoutMarks(attempt.metadata), both.bare.metadata);
  }
}

TEST_P(ContextTest, TheCensusContextReachesEveryAttempt) {
  int census = 0;
  auto* const expected = reinterpret_cast<census_context*>(&census);
  std::atomic<int> calls{0};
  std::atomic<int> with_census{0};
  play_->SetScript({Down(), Down(), Good()});
  MakeChannelByHand(
      Policy(kAttempts),
      ListOf(MakeEach([&](ClientRpcInfo* info) -> Interceptor* {
        ++calls;
        if (info->client_context()->census_context() == expected) {
          ++with_census;
        }
        return nullptr;
      })));
  grpc::ClientContext context;
  context.set_census_context(expected);
  EXPECT_TRUE(Call(&context).status.ok());
  // The application's own call, and each attempt beside it.
  EXPECT_EQ(calls, kAttempts + (IsItsOwnFirstAttempt(GetParam()) ? 0 : 1));
  EXPECT_EQ(with_census, calls);
}

TEST_P(ContextTest, ThePeerOfTheAnswerIsThatOfTheServer) {
  play_->SetScript({Down(), Good()});
  MakeChannel(Policy(4));
  EXPECT_TRUE(Call().status.ok());
  EXPECT_EQ(seen_->attempts().size(), 2);
  for (const auto& attempt : seen_->attempts()) {
    EXPECT_EQ(attempt.peer, absl::StrCat("ipv4:", play_->address()));
  }
}

// Numbers the tokens that it makes.
class Tokens final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit Tokens(std::atomic<int>* made) : made_(made) {}
  bool IsBlocking() const override { return false; }
  grpc::Status GetMetadata(
      grpc::string_ref /*url*/, grpc::string_ref /*method*/,
      const grpc::AuthContext& /*channel*/,
      std::multimap<std::string, std::string>* metadata) override {
    metadata->emplace("token", absl::StrCat(++*made_));
    return grpc::Status::OK;
  }

 private:
  std::atomic<int>* const made_;
};

class CredentialsTest : public KindTest {
 protected:
  CredentialsTest() {
    Serve(grpc::experimental::LocalServerCredentials(LOCAL_TCP));
    credentials_ = grpc::experimental::LocalCredentials(LOCAL_TCP);
  }
};
RETRY_GUARD_WITH_EVERY_KIND(CredentialsTest);

TEST_P(CredentialsTest, OfTheCallAreAskedOncePerAttempt) {
  play_->SetScript({Down(), Down(), Good()});
  MakeChannel(Policy(4));
  std::atomic<int> made{0};
  grpc::ClientContext context;
  context.set_credentials(grpc::experimental::MetadataCredentialsFromPlugin(
      std::make_unique<Tokens>(&made), GRPC_SECURITY_NONE));
  const CallResult result = Call(&context);
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(made, 3);
  const std::vector<PlayedCall> seen = play_->seen();
  ASSERT_EQ(seen.size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(seen[i].Values("token"), ElementsAre(absl::StrCat(i + 1)));
  }
}

class FailingCredentials final : public grpc::MetadataCredentialsPlugin {
 public:
  bool IsBlocking() const override { return false; }
  grpc::Status GetMetadata(
      grpc::string_ref /*url*/, grpc::string_ref /*method*/,
      const grpc::AuthContext& /*channel*/,
      std::multimap<std::string, std::string>* /*metadata*/) override {
    return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "no token");
  }
};

TEST_P(CredentialsTest, ThatFailAreToldAsOnABareChannel) {
  MakeChannel(Policy(4));
  const auto code = [&](const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    context.set_credentials(grpc::experimental::MetadataCredentialsFromPlugin(
        std::make_unique<FailingCredentials>(), GRPC_SECURITY_NONE));
    return Call(channel, &context).status.error_code();
  };
  EXPECT_EQ(code(channel_), code(BareChannel()));
  EXPECT_EQ(play_->calls(), 0);
}

// With nobody there. Fail-fast calls learn that at once, the others wait.
class WaitForReadyTest : public KindTest {
 protected:
  void Make(const std::string& policy) {
    target_ = port_.address();
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 10);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 10);
    MakeChannel(policy, arguments);
    // The channel knows by now that nobody is there.
    grpc::ClientContext context;
    context.set_wait_for_ready(false);
    EXPECT_EQ(Call(&context).status.error_code(),
              grpc::StatusCode::UNAVAILABLE);
    seen_->Clear();
  }

  void ExpectFailsAtOnce(grpc::ClientContext* context) {
    EXPECT_EQ(Call(context).status.error_code(), grpc::StatusCode::UNAVAILABLE);
  }

  // The call is answered once the server is there, by its first attempt.
  void ExpectWaits(grpc::ClientContext* context) {
    CallResult result;
    std::thread call([&] { result = Call(context); });
    const PlayServer server({Good()}, grpc::InsecureServerCredentials(),
                            port_.port());
    call.join();
    EXPECT_TRUE(result.status.ok()) << result.status.error_message();
    EXPECT_EQ(server.calls(), 1);
    EXPECT_THAT(seen_->decisions(), ElementsAre(Succeeds()));
  }

  static std::string WaitingPolicy() {
    return Policy(2)
        .Guard("\"maxAttempts\": 1")
        .Method("\"waitForReady\": true");
  }

  const ClosedPort port_;
};
RETRY_GUARD_WITH_EVERY_KIND(WaitForReadyTest);

TEST_P(WaitForReadyTest, SetByTheCallerAnAttemptWaits) {
  Make(Policy(1));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  ExpectWaits(&context);
}

TEST_P(WaitForReadyTest, NotSetAnAttemptFailsFast) {
  Make(Policy(1));
  grpc::ClientContext context;
  ExpectFailsAtOnce(&context);
}

TEST_P(WaitForReadyTest, SetByTheConfigAnAttemptWaits) {
  Make(WaitingPolicy());
  grpc::ClientContext context;
  ExpectWaits(&context);
}

TEST_P(WaitForReadyTest, TheCallersNoOutweighsTheConfig) {
  Make(WaitingPolicy());
  grpc::ClientContext context;
  context.set_wait_for_ready(false);
  ExpectFailsAtOnce(&context);
}

TEST_P(WaitForReadyTest, AWaitingAttemptEndsAtTheDeadline) {
  Make(Policy(4));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(100));
  EXPECT_EQ(Call(&context).status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
}

// The server goes after the first answer; nobody is there when the second
// attempt starts.
class WaitForReadyLaterTest : public KindTest {
 protected:
  void SetUp() override {
    clock_ = UseManualClock();
    play_ = std::make_unique<PlayServer>(std::vector<Play>{Down("busy")},
                                         grpc::InsecureServerCredentials(),
                                         port_.port());
    target_ = port_.address();
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 10);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 10);
    MakeChannel(Policy(2).Backoff("5s"), arguments);
  }

  // Takes the server away while a call is in its backoff, and ends that.
  void LoseTheServer() {
    ASSERT_TRUE(clock_->AwaitTimers(1));
    play_ = nullptr;
    // Else an attempt might still be made on the old connection.
    AwaitState([](grpc_connectivity_state state) {
      return state != GRPC_CHANNEL_READY;
    });
    clock_->Advance(absl::Seconds(5));
  }

  void AwaitState(const std::function<bool(grpc_connectivity_state)>& wanted) {
    const auto deadline =
        std::chrono::system_clock::now() + std::chrono::seconds(20);
    grpc_connectivity_state state = channel_->GetState(false);
    while (!wanted(state) && channel_->WaitForStateChange(state, deadline)) {
      state = channel_->GetState(false);
    }
    EXPECT_TRUE(wanted(state)) << state;
  }

  const ClosedPort port_;
  std::shared_ptr<testing::ManualClock> clock_;
};
RETRY_GUARD_WITH_EVERY_KIND(WaitForReadyLaterTest);

TEST_P(WaitForReadyLaterTest, SetByTheCallerALaterAttemptWaits) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  StartedWhole call = Start(&context);
  LoseTheServer();
  // It has tried to connect, and nobody was there.
  AwaitState([](grpc_connectivity_state state) {
    return state == GRPC_CHANNEL_TRANSIENT_FAILURE;
  });
  const PlayServer server({Good()}, grpc::InsecureServerCredentials(),
                          port_.port());
  EXPECT_TRUE(call.Await().status.ok()) << call.Await().status.error_message();
  EXPECT_EQ(server.calls(), 1);
  EXPECT_THAT(seen_->decisions(), ElementsAre(Retries(), Succeeds()));
}

TEST_P(WaitForReadyLaterTest, NotSetALaterAttemptFailsFast) {
  grpc::ClientContext context;
  StartedWhole call = Start(&context);
  LoseTheServer();
  EXPECT_EQ(call.Await().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Retries(), Returns(Reason::kAttemptsExhausted)));
}

}  // namespace
}  // namespace retry_guard::end2end
