// A program cannot tell whether its channel has retry_guard or not, but by what
// is listed in kDifferences: the same programs run on a bare channel and on
// ours, and everything that they see is the same.

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/version_info.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/end2end/fixture.h"
#include "tests/end2end/program.h"

namespace retry_guard::end2end {
namespace {

// Which of our ways of serving a call.
enum class Way {
  kPlain,           // one attempt
  kAttemptTimeout,  // one, by the relay in every style
  kAfterARetry,     // the second of two attempts
};

const char* WayName(Way way) {
  switch (way) {
    case Way::kPlain:
      return "plain";
    case Way::kAttemptTimeout:
      return "with a perAttemptTimeout";
    case Way::kAfterARetry:
      return "after a retry";
  }
  return "?";
}

struct Difference {
  std::string test;  // "": in every one
  std::string what;
  std::string bare;  // both by how they start
  std::string ours;
  std::function<bool(const Kind&, Way)> where;
  std::string reason;
};

bool Anywhere(const Kind& /*kind*/, Way /*way*/) { return true; }
bool OfReactors(const Kind& kind, Way /*way*/) {
  return kind.style == Style::kReactor || kind.style == Style::kGenericReactor;
}
bool AfterARetry(const Kind& /*kind*/, Way way) {
  return way == Way::kAfterARetry;
}
// Neither the call itself nor its first attempt is what the program sees.
bool WhereAttemptsAreOtherCalls(const Kind& kind, Way way) {
  return !IsItsOwnFirstAttempt(kind) || way == Way::kAttemptTimeout;
}
bool AfterAnAttemptOfItsOwn(const Kind& kind, Way way) {
  return IsItsOwnFirstAttempt(kind) && way == Way::kAfterARetry;
}
bool OfUnaryCallsWithATimeout(const Kind& kind, Way way) {
  return way == Way::kAttemptTimeout && kind.shape == Shape::kUnary;
}
bool WhereTheReplyComesLater(const Kind& kind, Way /*way*/) {
  return kind.style == Style::kQueueHeadersFirst;
}

// All that a program can tell us by.
const std::vector<Difference>& Differences() {
  static const auto& differences = *new std::vector<Difference>{
      {"", "peer", "ipv4:", "127.0.0.1:", WhereAttemptsAreOtherCalls,
       "README, Limitations: the target; a Decision has each attempt's"},
      {"", "peer", "127.0.0.1:", "ipv4:", AfterAnAttemptOfItsOwn,
       "README, Limitations: that of the first attempt"},
      {"", "debug_error_string", "some", "empty", WhereAttemptsAreOtherCalls,
       "README, Limitations: an attempt's context is its own"},
      {"CancelledBeforeTheStart", "debug_error_string", "some", "empty",
       Anywhere, "nothing was sent"},
      {"TheDeadlineIsPast", "debug_error_string", "some", "empty", Anywhere,
       "nothing was sent"},
      {"", "auth_context", "some", "none", WhereAttemptsAreOtherCalls,
       "README, Limitations: an attempt's context is its own"},
      {"", "WritesDone", "false", "true", Anywhere,
       "README, Limitations: gRPC has no way to fail that of a hijacked call"},
      {"", "server's deadline", "none", "one", OfUnaryCallsWithATimeout,
       "perAttemptTimeout is the deadline of an attempt"},
      {"WaitingForHeadersThatDoNotCome", "AwaitHeaders", "false", "true",
       OfReactors,
       "README, Limitations: gRPC has no way to fail that of a hijacked call"},
      {"AnErrorAfterTheReply", "reply", "a", "untouched",
       WhereTheReplyComesLater,
       "the reply of a call that has failed means nothing"},
      {"TheDeadlinePasses", "Finish", R"(4 "Deadline Exceeded")",
       R"(4 "Deadline Exceeded in attempt 2; the server\'s last answer was)",
       AfterARetry, "README: the message has the server's earlier status"},
  };
  return differences;
}

class DifferentialTest : public EndToEnd {
 protected:
  // Runs `program` against a server that plays `play`, and compares.
  void Compare(const Program& program, const Play& play,
               const std::vector<Kind>& kinds = AllKinds()) {
    if (target_.empty()) target_ = play_->address();
    grpc::ChannelArguments without_retries = arguments_;
    without_retries.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    const auto bare = BareChannel(without_retries);
    std::vector<std::vector<Sight>> expected;
    for (const Kind& kind : kinds) {
      expected.push_back(Run(program, kind, bare, {play}));
    }
    for (const Way way :
         {Way::kPlain, Way::kAttemptTimeout, Way::kAfterARetry}) {
      if (way == Way::kAfterARetry && !retries_) continue;
      Open(way);
      std::vector<Play> script = {play};
      if (way == Way::kAfterARetry) {
        // Of which nothing is to be seen in the end.
        script.insert(script.begin(), Down().Trailing("attempt", "one"));
      }
      for (size_t i = 0; i < kinds.size(); ++i) {
        if (Misses(program, kinds[i], way)) continue;
        SCOPED_TRACE(absl::StrCat(KindName(kinds[i]), ", ", WayName(way)));
        CompareSights(expected[i], Run(program, kinds[i], channel_, script),
                      kinds[i], way);
      }
    }
    ExpectAllDifferencesSeen();
  }

  // The kinds of some shapes.
  static std::vector<Kind> Of(std::initializer_list<Shape> shapes) {
    std::vector<Kind> kinds;
    for (const Kind& kind : AllKinds()) {
      if (std::find(shapes.begin(), shapes.end(), kind.shape) != shapes.end()) {
        kinds.push_back(kind);
      }
    }
    return kinds;
  }

  void UseSecureServer() {
    credentials_ = grpc::experimental::LocalCredentials(LOCAL_TCP);
    play_ = std::make_unique<PlayServer>(
        std::vector<Play>{Echo()},
        grpc::experimental::LocalServerCredentials(LOCAL_TCP));
  }

  grpc::ChannelArguments arguments_;
  bool compares_server_ = true;
  bool retries_ = true;  // false: the call may be over before its retry
  std::unique_ptr<PlayServer> play_ = std::make_unique<PlayServer>();

 private:
  // A blocking stream notices that an attempt has failed when it does
  // something: it cannot wait for the second attempt meanwhile.
  static bool Misses(const Program& program, const Kind& kind, Way way) {
    return way == Way::kAfterARetry && program.awaits_server() &&
           kind.shape != Shape::kUnary && kind.style == Style::kSync;
  }

  void Open(Way way) {
    Policy policy(4);
    policy.NoBreaker()
        .Budget("\"minRetries\": 10000")
        .Guard("\"bufferLimitBytes\": 67108864");
    if (way == Way::kAttemptTimeout) {
      policy.Guard("\"perAttemptTimeout\": \"100s\"");
    }
    if (way != Way::kAfterARetry) policy.Codes("\"DATA_LOSS\"");
    options_.guard = nullptr;
    MakeChannel(policy, arguments_);
  }

  std::vector<Sight> Run(const Program& program, const Kind& kind,
                         const std::shared_ptr<grpc::Channel>& channel,
                         const std::vector<Play>& script) {
    play_->SetScript(script);
    std::vector<Sight> sights =
        program.Run(kind, channel, *play_, static_cast<int>(script.size()));
    const std::vector<Sight> there = LookAtServer(*play_);
    if (compares_server_) {
      sights.insert(sights.end(), there.begin(), there.end());
    }
    return sights;
  }

  void CompareSights(const std::vector<Sight>& bare,
                     const std::vector<Sight>& ours, const Kind& kind,
                     Way way) {
    if (bare.size() != ours.size()) {
      ADD_FAILURE() << "bare:\n  " << Show(bare) << "\nours:\n  " << Show(ours);
      return;
    }
    for (size_t i = 0; i < bare.size(); ++i) {
      if (bare[i] == ours[i] || IsListed(bare[i], ours[i], kind, way)) continue;
      ADD_FAILURE() << "bare " << bare[i] << "\nours " << ours[i]
                    << "\nall of bare:\n  " << Show(bare);
    }
  }

  static std::string Show(const std::vector<Sight>& sights) {
    return absl::StrJoin(sights, "\n  ", absl::StreamFormatter());
  }

  static std::string ThisTest() {
    return ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }

  static bool Concerns(const Difference& difference) {
    return difference.test.empty() || difference.test == ThisTest();
  }

  bool IsListed(const Sight& bare, const Sight& ours, const Kind& kind,
                Way way) {
    for (size_t i = 0; i < Differences().size(); ++i) {
      const Difference& listed = Differences()[i];
      if (Concerns(listed) && listed.what == bare.what &&
          bare.what == ours.what && absl::StartsWith(bare.value, listed.bare) &&
          absl::StartsWith(ours.value, listed.ours) &&
          listed.where(kind, way)) {
        differences_seen_.insert(i);
        return true;
      }
    }
    return false;
  }

  // Those that are listed for this very test.
  void ExpectAllDifferencesSeen() {
    for (size_t i = 0; i < Differences().size(); ++i) {
      const Difference& listed = Differences()[i];
      if (listed.test.empty() || !Concerns(listed)) continue;
      EXPECT_EQ(differences_seen_.count(i), 1)
          << "is not there: " << listed.what << ": " << listed.bare << " / "
          << listed.ours;
    }
  }

  std::set<size_t> differences_seen_;
};
Program Ask() { return Program().Write("one").WritesDone().ReadToEnd(); }
Play Answer() { return Play().ReadToEnd().Reply("answer"); }

const grpc::Status kFailure(grpc::StatusCode::INVALID_ARGUMENT, "no",
                            std::string("de\0tails\xff", 9));

TEST_F(DifferentialTest, AnAnswer) { Compare(Ask(), Answer()); }

TEST_F(DifferentialTest, AnErrorWithDetailsAndTrailingMetadata) {
  Compare(Ask(), Play()
                     .ReadToEnd()
                     .Trailing("key", "value")
                     .Trailing("key", "another")
                     .Trailing("bytes-bin", std::string("\0\xff", 2))
                     .Ends(kFailure));
}

TEST_F(DifferentialTest, HeadersBeforeAnythingElse) {
  Compare(Program().AwaitHeaders().Write("one").WritesDone().ReadToEnd(),
          Play().Initial("key", "value").Headers().ReadToEnd().Reply("answer"));
}

TEST_F(DifferentialTest, HeadersAfterTheWrites) {
  Compare(Program().Write("one").WritesDone().AwaitHeaders().ReadToEnd(),
          Play().Initial("key", "value").ReadToEnd().Headers().Reply("answer"));
}

TEST_F(DifferentialTest, WaitingForHeadersThatDoNotCome) {
  Compare(Program().Write("one").WritesDone().AwaitHeaders().ReadToEnd(),
          Play().ReadToEnd().Trailing("key", "value").Ends(kFailure));
}

TEST_F(DifferentialTest, HeadersAndThenAnError) {
  Compare(Program().Write("one").WritesDone().AwaitHeaders().ReadToEnd(),
          Play().Initial("key", "value").Headers().ReadToEnd().Ends(kFailure));
}

TEST_F(DifferentialTest, AnEmptyStream) {
  Compare(Ask(), Play().ReadToEnd(), Of({Shape::kServerStream, Shape::kBidi}));
}

TEST_F(DifferentialTest, OkWithoutAReply) {
  Compare(Ask(), Play().ReadToEnd(), Of({Shape::kUnary, Shape::kClientStream}));
}

TEST_F(DifferentialTest, SeveralMessages) {
  Compare(
      Program().Write("1").Write("2").Write("3").WritesDone().ReadToEnd(),
      Play().ReadToEnd().Reply("a").Reply("b").Reply("c").Trailing("k", "v"),
      Of({Shape::kServerStream, Shape::kBidi}));
}

TEST_F(DifferentialTest, SeveralMessagesAndOneReply) {
  Compare(Program().Write("1").Write("2").Write("3").WritesDone(), Answer(),
          Of({Shape::kClientStream}));
}

TEST_F(DifferentialTest, AnErrorAfterMessages) {
  Compare(Ask(), Play().ReadToEnd().Reply("a").Reply("b").Ends(kFailure),
          Of({Shape::kServerStream, Shape::kBidi}));
}

TEST_F(DifferentialTest, AnErrorAfterTheReply) {
  Compare(Ask(), Play().ReadToEnd().Reply("a").Ends(kFailure),
          Of({Shape::kUnary, Shape::kClientStream}));
}

TEST_F(DifferentialTest, TheLastWriteCloses) {
  Compare(Program().Write("one").WriteLast("two").ReadToEnd(), Answer());
}

TEST_F(DifferentialTest, TheOnlyWriteCloses) {
  Compare(Program().WriteLast("one").ReadToEnd(), Answer());
}

TEST_F(DifferentialTest, HalfClosedWithoutAWrite) {
  Compare(Program().WritesDone().ReadToEnd(), Answer());
}

TEST_F(DifferentialTest, Corked) {
  Compare(Program().Corked().Write("one").Write("two").WritesDone().ReadToEnd(),
          Answer(), Of({Shape::kClientStream, Shape::kBidi}));
}

TEST_F(DifferentialTest, CorkedAndClosedInOne) {
  Compare(Program().Corked().WriteLast("one").ReadToEnd(), Answer(),
          Of({Shape::kClientStream, Shape::kBidi}));
}

TEST_F(DifferentialTest, ReadsAndWritesInTurn) {
  Compare(Program()
              .Write("one")
              .Read()
              .Write("two")
              .Read()
              .Write("three")
              .Read()
              .WritesDone()
              .Read(),
          Echo(), Of({Shape::kBidi}));
}

TEST_F(DifferentialTest, TheServerEndsBeforeTheClientDoes) {
  Compare(Program().Write("one").ReadToEnd().Write("two").WritesDone(),
          Play().Read(1).Reply("a").Ends(kFailure), Of({Shape::kBidi}));
}

TEST_F(DifferentialTest, TheServerEndsWithOkBeforeTheClientDoes) {
  Compare(Program().Write("one").ReadToEnd().Write("two").WritesDone(),
          Play().Read(1).Reply("a"), Of({Shape::kBidi}));
}

TEST_F(DifferentialTest, TheServerEndsAtOnce) {
  Compare(Program().ReadToEnd().Write("one").WritesDone(),
          Play().Ends(kFailure), Of({Shape::kBidi}));
}

TEST_F(DifferentialTest, CancelledAfterHeaders) {
  Compare(Program().Write("one").AwaitHeaders().Cancel().ReadToEnd(),
          Play().Read(1).Initial("key", "value").Headers().Hold(),
          StreamKinds());
}

TEST_F(DifferentialTest, CancelledBetweenMessages) {
  Compare(Program().Write("one").Read().Cancel().ReadToEnd(),
          Play().Read(1).Reply("a").Hold(),
          Of({Shape::kServerStream, Shape::kBidi}));
}

TEST_F(DifferentialTest, CancelledBeforeAnAnswer) {
  Compare(Program().Write("one").AwaitServer().Cancel().ReadToEnd(), Silent());
}

TEST_F(DifferentialTest, CancelledBeforeTheStart) {
  compares_server_ = false;
  Compare(
      Ask().SetUp([](grpc::ClientContext* context) { context->TryCancel(); }),
      Answer());
}

TEST_F(DifferentialTest, CancelledBeforeTheFirstWrite) {
  compares_server_ = false;
  retries_ = false;
  Compare(Program().Cancel().Write("one").ReadToEnd(), Silent(),
          Of({Shape::kClientStream, Shape::kBidi}));
}

TEST_F(DifferentialTest, ALameChannel) {
  compares_server_ = false;
  credentials_ = nullptr;
  Compare(Ask(), Answer());
}

TEST_F(DifferentialTest, TheDeadlinePasses) {
  compares_server_ = false;  // a busy machine may be late
  const Program program = Program().Write("one").ReadToEnd().SetUp(
      [](grpc::ClientContext* context) {
        context->set_deadline(std::chrono::system_clock::now() +
                              std::chrono::milliseconds(300));
      });
  // Not all: each takes its time.
  std::vector<Kind> kinds = {{Shape::kBidi, Style::kQueue}};
  for (const Kind& kind : AllKinds()) {
    if (kind.style == Style::kSync || kind.style == Style::kReactor) {
      kinds.push_back(kind);
    }
  }
  Compare(program, Silent(), kinds);
}

TEST_F(DifferentialTest, TheDeadlineIsPast) {
  compares_server_ = false;
  Compare(Ask().SetUp([](grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() -
                          std::chrono::seconds(1));
  }),
          Answer());
}

TEST_F(DifferentialTest, ADeadlineThatIsFarAway) {
  Compare(Ask().SetUp([](grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() +
                          std::chrono::hours(1));
  }),
          Answer());
}

TEST_F(DifferentialTest, AMessageThatIsTooLargeToSend) {
  compares_server_ = false;  // it may have seen the headers, or not
  arguments_.SetMaxSendMessageSize(1000);
  Compare(Program().Write(std::string(2000, 'x')).ReadToEnd(), Answer());
}

TEST_F(DifferentialTest, AMessageThatIsTooLargeToReceive) {
  arguments_.SetMaxReceiveMessageSize(1000);
  std::vector<Kind> kinds = AllKinds();
#if GRPC_CPP_VERSION_MINOR > 51
  // A newer core ends the stream RESOURCE_EXHAUSTED or CANCELLED, as chance
  // will have it.
  kinds.erase(std::remove_if(
                  kinds.begin(), kinds.end(),
                  [](const Kind& kind) { return kind.shape != Shape::kUnary; }),
              kinds.end());
#endif
  Compare(Ask(), Play().ReadToEnd().Reply(std::string(2000, 'x')), kinds);
}

TEST_F(DifferentialTest, AMessageThatIsTooLargeForTheServer) {
  Compare(Program().Write(std::string(300 << 10, 'x')).ReadToEnd(),
          Play().Read(1).Reply("a"));
}

TEST_F(DifferentialTest, AnEmptyMessage) {
  Compare(Program().Write("").WritesDone().ReadToEnd(),
          Play().ReadToEnd().Reply(""));
}

TEST_F(DifferentialTest, ALargeMessage) {
  Compare(Program().Write(std::string(200 << 10, 'x')).WritesDone().ReadToEnd(),
          Play().ReadToEnd().Reply(std::string(200 << 10, 'y')));
}

TEST_F(DifferentialTest, Compressed) {
  Compare(Program()
              .Write(std::string(10'000, 'x'))
              .WritesDone()
              .ReadToEnd()
              .SetUp([](grpc::ClientContext* context) {
                context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
              }),
          Answer());
}

TEST_F(DifferentialTest, AMethodThatTheServerDoesNotHave) {
  // Whether a write meets the end of such a call is chance.
  Compare(Program().ReadToEnd(),
          Play().Ends({grpc::StatusCode::UNIMPLEMENTED, ""}));
}

TEST_F(DifferentialTest, MetadataBothWays) {
  Compare(Ask().SetUp([](grpc::ClientContext* context) {
    context->AddMetadata("key", "value");
    context->AddMetadata("twice", "one");
    context->AddMetadata("twice", "two");
    context->AddMetadata("bytes-bin", std::string("\0\x01\xff\n", 4));
    context->AddMetadata("empty", "");
    context->set_authority("other.example");
  }),
          Play()
              .Initial("twice", "1")
              .Initial("twice", "2")
              .Initial("bytes-bin", std::string("\0\xff", 2))
              .Trailing("twice", "3")
              .Trailing("twice", "4")
              .ReadToEnd()
              .Reply("answer"));
}

class OneToken final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit OneToken(grpc::Status status) : status_(std::move(status)) {}
  bool IsBlocking() const override { return false; }
  grpc::Status GetMetadata(
      grpc::string_ref url, grpc::string_ref method,
      const grpc::AuthContext& /*channel*/,
      std::multimap<std::string, std::string>* metadata) override {
    metadata->emplace("token",
                      absl::StrCat(std::string(method.data(), method.size()),
                                   url.empty() ? "" : " of a url"));
    return status_;
  }

 private:
  const grpc::Status status_;
};

Program::Setup WithToken(const grpc::Status& status) {
  return [status](grpc::ClientContext* context) {
    context->set_credentials(grpc::experimental::MetadataCredentialsFromPlugin(
        std::make_unique<OneToken>(status), GRPC_SECURITY_NONE));
  };
}

TEST_F(DifferentialTest, CredentialsOfTheCall) {
  UseSecureServer();
  Compare(Ask().SetUp(WithToken(grpc::Status::OK)), Answer());
}

TEST_F(DifferentialTest, CredentialsThatFail) {
  UseSecureServer();
  compares_server_ = false;
  Compare(Ask().SetUp(WithToken(kFailure)), Answer());
}

TEST_F(DifferentialTest, NobodyThere) {
  const ClosedPort port;
  target_ = port.address();
  compares_server_ = false;
  Compare(Ask(), Answer());
}

}  // namespace
}  // namespace retry_guard::end2end
