// Whatever the caller has set on its context, each attempt has: a server cannot
// tell one from a call on a bare channel but by our own marks.

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <atomic>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/end2end/fixture.h"

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

class ContextTest : public EndToEndTest {
 protected:
  using Setup = std::function<void(grpc::ClientContext*)>;

  // The attempts of a call that succeeds with its third, after one call on a
  // bare channel; both with contexts that `setup` has seen.
  struct Both {
    SeenCall bare;
    std::vector<SeenCall> attempts;
  };
  Both CallBoth(const Setup& setup, const std::string& text = "hi") {
    Both both;
    {
      grpc::ClientContext context;
      setup(&context);
      server_.SetScript({Succeed()});
      EXPECT_TRUE(Call(GetParam(), BareChannel(), &context, text).status.ok());
      both.bare = server_.seen().at(0);
    }
    server_.SetScript({Unavailable(), Unavailable(), Succeed()});
    MakeChannel(Policy(kAttempts));
    grpc::ClientContext context;
    setup(&context);
    EXPECT_TRUE(CallUnary(&context, text).status.ok());
    both.attempts = server_.seen();
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
RETRY_GUARD_IN_EVERY_STYLE(ContextTest);

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
  for (const SeenCall& attempt : both.attempts) {
    EXPECT_EQ(WithoutMarks(attempt.metadata), both.bare.metadata);
  }
}

TEST_P(ContextTest, WithNothingSetNothingIsAdded) {
  const Both both = CallBoth([](grpc::ClientContext*) {});
  for (const SeenCall& attempt : both.attempts) {
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
  for (const SeenCall& attempt : both.attempts) {
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
  for (const SeenCall& attempt : both.attempts) {
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
  for (const SeenCall& attempt : both.attempts) {
    EXPECT_EQ(attempt.compression, GRPC_COMPRESS_GZIP);
    EXPECT_EQ(WithoutMarks(attempt.metadata), both.bare.metadata);
  }
}

TEST_P(ContextTest, ThePeerOfTheAnswerIsThatOfTheServer) {
  server_.SetScript({Unavailable(), Succeed()});
  MakeChannel(Policy(4));
  EXPECT_TRUE(CallUnary().status.ok());
  for (const auto& attempt : seen_->attempts()) {
    EXPECT_EQ(attempt.peer, absl::StrCat("ipv4:", server_.address()));
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

class CredentialsTest : public EndToEndTest {
 protected:
  ScriptedServer secure_{{Unavailable(), Unavailable(), Succeed()},
                         grpc::experimental::LocalServerCredentials(LOCAL_TCP)};
};
RETRY_GUARD_IN_EVERY_STYLE(CredentialsTest);

TEST_P(CredentialsTest, OfTheCallAreAskedOncePerAttempt) {
  target_ = secure_.address();
  credentials_ = grpc::experimental::LocalCredentials(LOCAL_TCP);
  MakeChannel(Policy(4));
  std::atomic<int> made{0};
  grpc::ClientContext context;
  context.set_credentials(grpc::experimental::MetadataCredentialsFromPlugin(
      std::make_unique<Tokens>(&made), GRPC_SECURITY_NONE));
  const CallResult result = CallUnary(&context);
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(made, 3);
  const std::vector<SeenCall> seen = secure_.seen();
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
  target_ = secure_.address();
  credentials_ = grpc::experimental::LocalCredentials(LOCAL_TCP);
  MakeChannel(Policy(4));
  const auto code = [&](const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    context.set_credentials(grpc::experimental::MetadataCredentialsFromPlugin(
        std::make_unique<FailingCredentials>(), GRPC_SECURITY_NONE));
    return Call(GetParam(), channel, &context).status.error_code();
  };
  EXPECT_EQ(code(channel_), code(BareChannel()));
  EXPECT_EQ(secure_.calls(), 0);
}

// With nobody there. Fail-fast calls learn that at once, the others wait.
class WaitForReadyTest : public EndToEndTest {
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
    EXPECT_EQ(CallUnary(&context).status.error_code(),
              grpc::StatusCode::UNAVAILABLE);
    seen_->Clear();
  }

  void ExpectFailsAtOnce(grpc::ClientContext* context) {
    EXPECT_EQ(CallUnary(context).status.error_code(),
              grpc::StatusCode::UNAVAILABLE);
  }

  // The call is answered once the server is there, by its first attempt.
  void ExpectWaits(grpc::ClientContext* context) {
    StartedCall call = StartUnary(context);
    const ScriptedServer server({Succeed()}, grpc::InsecureServerCredentials(),
                                port_.port());
    EXPECT_TRUE(call.Await().ok());
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
RETRY_GUARD_IN_EVERY_STYLE(WaitForReadyTest);

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
  EXPECT_EQ(CallUnary(&context).status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
}

}  // namespace
}  // namespace retry_guard::end2end
