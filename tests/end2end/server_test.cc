// The inbound side: what a server in the middle of a chain carries over to its
// own calls, and what it tells its callers.

#include "retry_guard/server.h"

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "retry_guard/call/inbound_call.h"
#include "retry_guard/policy/pushback.h"
#include "retry_guard/rpc_status.pb.h"
#include "tests/end2end/fixture.h"
#include "tests/end2end/middle_server.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::OfAttempt;
using testing::Retries;
using testing::Returns;

// The bottom of the chain is `server_`, reached through `channel_`. How calls
// are made does not matter here; what kind of server is in the middle does.
class EveryServerTest : public EndToEnd,
                        public ::testing::WithParamInterface<ServerKind> {
 protected:
  grpc::Status CallBottom(grpc::ClientContext* context) {
    return Call(Style::kSync, channel_, context).status;
  }

  // A handler that calls the bottom, as `ContinueFrom` has it.
  MiddleHandler Continue(Inbound trust = Inbound::kTrusted) {
    return [this, trust](grpc::ServerContextBase* inbound, auto) {
      grpc::ClientContext outbound;
      ContinueFrom(*inbound, &outbound, trust);
      return CallBottom(&outbound);
    };
  }

  // One that does nothing but FromServerContext.
  MiddleHandler FromServer() {
    return [this](grpc::ServerContextBase*,
                  std::unique_ptr<grpc::ClientContext> outbound) {
      return CallBottom(outbound.get());
    };
  }

  // One that calls the bottom so, and answers what it likes.
  MiddleHandler CallThen(
      std::function<grpc::Status(grpc::ServerContextBase*)> answer) {
    return [call = FromServer(), answer = std::move(answer)](
               grpc::ServerContextBase* inbound, auto from_server) {
      call(inbound, std::move(from_server));
      return answer(inbound);
    };
  }

  // Calls the middle as a layer above would, marked by `owner` if that is not
  // empty.
  grpc::Status CallMiddle(const MiddleServer& middle, const std::string& owner,
                          grpc::ClientContext* context,
                          const std::string& remaining_ms = "5000") {
    if (!owner.empty()) {
      context->AddMetadata("retry-owner", owner);
      context->AddMetadata("retry-attempt", "2");
      context->AddMetadata("retry-remaining-ms", remaining_ms);
    }
    return Call(Style::kSync, middle.BareChannelTo(), context).status;
  }
  grpc::Status CallMiddle(const MiddleServer& middle,
                          const std::string& owner = "",
                          const std::string& remaining_ms = "5000") {
    grpc::ClientContext context;
    return CallMiddle(middle, owner, &context, remaining_ms);
  }

  // The pushback that the middle answers a call with; "" if none.
  std::string PushbackOf(const MiddleServer& middle,
                         grpc::ClientContext* context) {
    CallMiddle(middle, "gateway", context);
    const auto& trailing = context->GetServerTrailingMetadata();
    EXPECT_LE(trailing.count("grpc-retry-pushback-ms"), 1);
    const auto found = trailing.find("grpc-retry-pushback-ms");
    return found == trailing.end()
               ? ""
               : std::string(found->second.data(), found->second.size());
  }
  std::string PushbackOf(const MiddleServer& middle) {
    grpc::ClientContext context;
    return PushbackOf(middle, &context);
  }
};

std::string ServerParamName(const ::testing::TestParamInfo<ServerKind>& info) {
  return ServerKindName(info.param);
}

INSTANTIATE_TEST_SUITE_P(Servers, EveryServerTest,
                         ::testing::ValuesIn(AllServerKinds()),
                         ServerParamName);

TEST_P(EveryServerTest, ContinueFromCarriesTheMarkerAndTheLayerDoesNotRetry) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(3));
  MiddleServer middle(GetParam(), Continue());
  EXPECT_EQ(CallMiddle(middle, "gateway").error_code(),
            grpc::StatusCode::UNAVAILABLE);
  ASSERT_EQ(server_.calls(), 1);
  const SeenCall seen = server_.seen().front();
  EXPECT_THAT(seen.Values("retry-owner"), ElementsAre("gateway"));
  EXPECT_THAT(seen.Values("retry-attempt"), ElementsAre("2"));
  ASSERT_EQ(seen.Values("retry-remaining-ms").size(), 1);
  EXPECT_LE(std::stoi(seen.Values("retry-remaining-ms").front()), 5000);
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kAnotherLayerRetries)));
}

TEST_P(EveryServerTest, AMarkerFromOutsideChangesNothing) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(3));
  MiddleServer middle(GetParam(), Continue(Inbound::kUntrusted));
  CallMiddle(middle, "stranger", /*remaining_ms=*/"0");
  ASSERT_EQ(server_.calls(), 3);
  EXPECT_THAT(Snapshot().refusals,
              ElementsAre(::testing::Pair(Reason::kAttemptsExhausted, 1)));
  for (const SeenCall& seen : server_.seen()) {
    EXPECT_NE(seen.Values("retry-owner"), std::vector<std::string>{"stranger"});
    EXPECT_THAT(seen.Values("retry-remaining-ms"), IsEmpty());
  }
}

// A marker is of one call. What a handler does on its own account is not on
// behalf of that, though it happens meanwhile.
TEST_P(EveryServerTest, AMarkerNeverLeaksIntoACallOfAnotherOrigin) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(3));
  MiddleServer middle(
      GetParam(),
      [this](grpc::ServerContextBase*, auto) {
        grpc::ClientContext of_its_own;
        return CallBottom(&of_its_own);
      },
      Inbound::kTrusted);
  CallMiddle(middle, "gateway", /*remaining_ms=*/"0");
  ASSERT_EQ(server_.calls(), 3);
  for (const SeenCall& seen : server_.seen()) {
    EXPECT_NE(seen.Values("retry-owner"), std::vector<std::string>{"gateway"});
    EXPECT_THAT(seen.Values("retry-remaining-ms"), IsEmpty());
  }
}

TEST_P(EveryServerTest, NothingElseOfTheInboundCallTravelsOn) {
  MakeChannel(Policy(3));
  MiddleServer middle(GetParam(), Continue());
  grpc::ClientContext context;
  context.AddMetadata("idempotency-key", "of-this-call-alone");
  context.AddMetadata("authorization-like", "secret");
  EXPECT_TRUE(CallMiddle(middle, "gateway", &context).ok());
  EXPECT_THAT(server_.seen().front().Values("idempotency-key"), IsEmpty());
  EXPECT_THAT(server_.seen().front().Values("authorization-like"), IsEmpty());
}

TEST_P(EveryServerTest, TheDeadlineNeverGrowsDownTheChain) {
  MakeChannel(Policy(3));
  MiddleServer middle(GetParam(), Continue());
  // gRPC sends 15.001 s as 15.1 s and more.
  const auto deadline =
      std::chrono::system_clock::now() + std::chrono::milliseconds(15001);
  grpc::ClientContext context;
  context.set_deadline(deadline);
  context.AddMetadata("retry-owner", "gateway");
  context.AddMetadata("retry-remaining-ms", "15001");
  EXPECT_TRUE(Call(Style::kSync, middle.BareChannelTo(), &context).status.ok());
  const SeenCall seen = server_.seen().front();
  ASSERT_EQ(seen.Values("retry-remaining-ms").size(), 1);
  EXPECT_LE(std::stoi(seen.Values("retry-remaining-ms").front()), 15001);
}

// ContinueFrom alone has to see the inbound deadline.
TEST_P(EveryServerTest, ContinueFromShowsTheInboundDeadlineToTheFitCheck) {
  server_.SetScript({Unavailable("the real one")});
  MakeChannel(Policy(3).Backoff("60s").Guard(R"("jitter": "NONE")"));
  MiddleServer middle(GetParam(), Continue());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  EXPECT_EQ(CallMiddle(middle, "", &context).error_message(), "the real one");
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kDeadlineTooClose)));
}

TEST_P(EveryServerTest, AnEarlierDeadlineOfTheOutboundCallsOwnStays) {
  MakeChannel(Policy(3));
  MiddleServer middle(GetParam(),
                      [this](grpc::ServerContextBase* inbound, auto) {
                        grpc::ClientContext outbound;
                        outbound.set_deadline(std::chrono::system_clock::now() +
                                              std::chrono::seconds(10));
                        ContinueFrom(*inbound, &outbound);
                        return CallBottom(&outbound);
                      });
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(60));
  EXPECT_TRUE(CallMiddle(middle, "", &context).ok());
  ASSERT_EQ(server_.calls(), 1);
  EXPECT_LE(server_.seen().front().time_left(), absl::Seconds(11));
}

TEST_P(EveryServerTest, AnInboundCallWithoutTimeLeftSendsNothing) {
  MakeChannel(Policy(3));
  const MiddleServer continues(GetParam(), Continue());
  const MiddleServer from_server(GetParam(), FromServer(), Inbound::kTrusted);
  for (const MiddleServer* middle : {&continues, &from_server}) {
    seen_->Clear();
    EXPECT_EQ(CallMiddle(*middle, "gateway", /*remaining_ms=*/"0").error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_THAT(
        seen_->decisions(),
        ElementsAre(AllOf(OfAttempt(0), Returns(Reason::kDeadlineTooClose))));
  }
  EXPECT_EQ(server_.calls(), 0);
}

TEST_P(EveryServerTest, AnInboundDeadlineThatHasPassedSendsNothing) {
  MakeChannel(Policy(3));
  const auto too_late = [](MiddleHandler handler) -> MiddleHandler {
    return [handler = std::move(handler)](
               grpc::ServerContextBase* inbound,
               std::unique_ptr<grpc::ClientContext> from_server) {
      std::this_thread::sleep_until(inbound->deadline());
      return handler(inbound, std::move(from_server));
    };
  };
  const MiddleServer continues(GetParam(), too_late(Continue()));
  const MiddleServer from_server(GetParam(), too_late(FromServer()),
                                 Inbound::kTrusted);
  for (const MiddleServer* middle : {&continues, &from_server}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(200));
    EXPECT_EQ(CallMiddle(*middle, "", &context).error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  EXPECT_EQ(server_.calls(), 0);
}

TEST_P(EveryServerTest, ACancelledInboundCallEndsABackoff) {
  const auto clock = UseManualClock();
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(4).Backoff("1000s"));
  const MiddleServer continues(GetParam(), Continue());
  const MiddleServer from_server(GetParam(), FromServer(), Inbound::kTrusted);
  for (const MiddleServer* middle : {&continues, &from_server}) {
    seen_->Clear();
    grpc::ClientContext context;
    StartedCall call(Style::kCallback, middle->BareChannelTo(), &context, "hi");
    ASSERT_TRUE(clock->AwaitTimers(1));
    context.TryCancel();
    EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(seen_->AwaitDecisions(2));
    EXPECT_THAT(seen_->decisions(),
                ElementsAre(Retries(), Returns(Reason::kCallerCancelled)));
  }
}

TEST_P(EveryServerTest, ACancelledInboundCallEndsTheOutboundOne) {
  server_.SetScript({Hold()});
  MakeChannel(Policy(3));
  MiddleServer middle(GetParam(), Continue());
  grpc::ClientContext context;
  StartedCall call(Style::kCallback, middle.BareChannelTo(), &context, "hi");
  ASSERT_TRUE(server_.AwaitCalls(1));
  context.TryCancel();
  EXPECT_TRUE(server_.AwaitCancelled(1));
  EXPECT_EQ(call.Await().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_P(EveryServerTest, WithTheInterceptorFromServerContextIsEnough) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(3));
  MiddleServer middle(GetParam(), FromServer(), Inbound::kTrusted);
  CallMiddle(middle, "gateway");
  ASSERT_EQ(server_.calls(), 1);
  EXPECT_THAT(server_.seen().front().Values("retry-owner"),
              ElementsAre("gateway"));
  EXPECT_THAT(server_.seen().front().Values("retry-attempt"), ElementsAre("2"));
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kAnotherLayerRetries)));
}

TEST_P(EveryServerTest, TheInterceptorDropsAMarkerThatIsNotToBeTrusted) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(3));
  MiddleServer middle(GetParam(), FromServer(), Inbound::kUntrusted);
  CallMiddle(middle, "stranger", /*remaining_ms=*/"0");
  ASSERT_EQ(server_.calls(), 3);
  for (const SeenCall& seen : server_.seen()) {
    EXPECT_THAT(seen.Values("retry-remaining-ms"), IsEmpty());
  }
}

TEST_P(EveryServerTest, TheInterceptorShowsTheInboundDeadlineToTheFitCheck) {
  server_.SetScript({Unavailable("the real one")});
  // Without the interceptor this would wait, and end DEADLINE_EXCEEDED.
  MakeChannel(Policy(3).Backoff("60s").Guard(R"("jitter": "NONE")"));
  MiddleServer middle(GetParam(), FromServer(), Inbound::kTrusted);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  const grpc::Status status = CallMiddle(middle, "", &context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the real one");
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kDeadlineTooClose)));
}

TEST_P(EveryServerTest, TheInterceptorLeaksNothing) {
  MakeChannel(Policy(3));
  {
    MiddleServer middle(GetParam(), FromServer(), Inbound::kTrusted);
    for (int i = 0; i < 50; ++i)
      CallMiddle(middle, i % 2 == 0 ? "gateway" : "");
  }
  EXPECT_EQ(internal::InboundCalls::OfThisProcess().size(), 0);
}

// Cancelled, out of time, or still open as the server goes away.
TEST_P(EveryServerTest, TheInterceptorLeaksNothingOfCallsThatDieOddly) {
  server_.SetScript({Hold()});
  MakeChannel(Policy(3));
  auto middle = std::make_unique<MiddleServer>(GetParam(), FromServer(),
                                               Inbound::kTrusted);
  const auto channel = middle->BareChannelTo();
  grpc::ClientContext cancelled;
  StartedCall first(Style::kCallback, channel, &cancelled, "hi");
  ASSERT_TRUE(server_.AwaitCalls(1));
  cancelled.TryCancel();
  grpc::ClientContext late;
  late.set_deadline(std::chrono::system_clock::now() +
                    std::chrono::milliseconds(100));
  StartedCall second(Style::kCallback, channel, &late, "hi");
  EXPECT_EQ(first.Await().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(second.Await().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  const int before = server_.calls();
  grpc::ClientContext open;
  StartedCall third(Style::kCallback, channel, &open, "hi");
  ASSERT_TRUE(server_.AwaitCalls(before + 1));
  middle = nullptr;
  EXPECT_FALSE(third.Await().ok());
  EXPECT_EQ(internal::InboundCalls::OfThisProcess().size(), 0);
}

// Either may know better than the other.
TEST_P(EveryServerTest, AMarkerHasToBeTrustedByHandlerAndInterceptor) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(3));
  const MiddleServer careless_handler(GetParam(), Continue(Inbound::kTrusted),
                                      Inbound::kUntrusted);
  const MiddleServer careless_server(GetParam(), Continue(Inbound::kUntrusted),
                                     Inbound::kTrusted);
  int calls = 0;
  for (const MiddleServer* middle : {&careless_handler, &careless_server}) {
    CallMiddle(*middle, "stranger", /*remaining_ms=*/"1");
    ASSERT_EQ(server_.calls(), calls += 3);
    for (const SeenCall& seen : server_.seen()) {
      EXPECT_NE(seen.Values("retry-owner"),
                std::vector<std::string>{"stranger"});
      EXPECT_THAT(seen.Values("retry-remaining-ms"), IsEmpty());
    }
  }
}

TEST_P(EveryServerTest, AMarkerThatBothTrustTravelsOn) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(3));
  const MiddleServer middle(GetParam(), Continue(), Inbound::kTrusted);
  CallMiddle(middle, "gateway");
  ASSERT_EQ(server_.calls(), 1);
  const SeenCall seen = server_.seen().front();
  EXPECT_THAT(seen.Values("retry-owner"), ElementsAre("gateway"));
  ASSERT_EQ(seen.Values("retry-remaining-ms").size(), 1);
  EXPECT_LE(std::stoi(seen.Values("retry-remaining-ms").front()), 5000);
}

// Only a blocking server catches what its handlers throw.
using BlockingServerTest = EndToEnd;

TEST_F(BlockingServerTest, TheInterceptorLeaksNothingOfAHandlerThatThrows) {
  {
    const MiddleServer middle(
        ServerKind::kSync,
        [](auto*, auto) -> grpc::Status { throw std::runtime_error("oh no"); },
        Inbound::kTrusted);
    grpc::ClientContext context;
    EXPECT_EQ(Call(Style::kSync, middle.BareChannelTo(), &context)
                  .status.error_code(),
              grpc::StatusCode::UNKNOWN);
  }
  EXPECT_EQ(internal::InboundCalls::OfThisProcess().size(), 0);
}

TEST_P(EveryServerTest, ALayerThatRetriesHereTellsThoseAboveNotTo) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(2).Guard(R"("layer": "HERE")"));
  MiddleServer middle(GetParam(), FromServer(), Inbound::kTrusted);
  EXPECT_EQ(PushbackOf(middle), "-1");
  EXPECT_EQ(server_.calls(), 2);
  EXPECT_NE(server_.seen().front().Values("retry-owner"),
            std::vector<std::string>{"gateway"});
}

TEST_P(EveryServerTest, SoItDoesWhenItsBudgetIsUsedUp) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(2)
                  .Guard(R"("layer": "HERE")")
                  .Budget(R"("ratio": 0, "minRetries": 0)"));
  MiddleServer middle(GetParam(), FromServer(), Inbound::kTrusted);
  EXPECT_EQ(PushbackOf(middle), "-1");
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kBudgetExhausted)));
}

TEST_P(EveryServerTest, SoItDoesWhenTheDeadlineIsTooClose) {
  server_.SetScript({Unavailable()});
  MakeChannel(
      Policy(2).Backoff("60s").Guard(R"("layer": "HERE", "jitter": "NONE")"));
  MiddleServer middle(GetParam(), FromServer(), Inbound::kTrusted);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  EXPECT_EQ(PushbackOf(middle, &context), "-1");
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kDeadlineTooClose)));
}

// Something else went wrong then, which those above may well repeat.
TEST_P(EveryServerTest, ItSaysNothingOfAFailureThatItsHandlerDoesNotReturn) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(2).Guard(R"("layer": "HERE")"));
  MiddleServer middle(GetParam(), CallThen([](grpc::ServerContextBase*) {
                        return grpc::Status(grpc::StatusCode::ABORTED,
                                            "of its own");
                      }),
                      Inbound::kTrusted);
  EXPECT_EQ(PushbackOf(middle), "");
  EXPECT_EQ(server_.calls(), 2);
}

TEST_P(EveryServerTest, AHandlersOwnPushbackStays) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(2).Guard(R"("layer": "HERE")"));
  MiddleServer middle(
      GetParam(), CallThen([](grpc::ServerContextBase* inbound) {
        return RetryLater(inbound, absl::Milliseconds(7), "mine");
      }),
      Inbound::kTrusted);
  EXPECT_EQ(PushbackOf(middle), "7");
}

TEST_P(EveryServerTest, ABreakerRefusalTellsThoseAboveWhenToComeAgain) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(2).Breaker(R"("failureRate": 0, "consecutiveFailures": 1,
                                   "openFor": "5s")"));
  MiddleServer middle(GetParam(), FromServer(), Inbound::kTrusted);
  CallMiddle(middle, "gateway");  // opens it
  const std::string value = PushbackOf(middle);
  EXPECT_EQ(server_.calls(), 1);
  ASSERT_NE(value, "");
  const int ms = std::stoi(value);
  EXPECT_GT(ms, 0);
  EXPECT_LE(ms, 6000);
}

TEST_P(EveryServerTest, RetryLaterSpeaksToEveryClient) {
  MakeChannel(Policy(2));
  MiddleServer middle(GetParam(), [](grpc::ServerContextBase* inbound, auto) {
    return RetryLater(inbound, absl::Microseconds(1500), "busy");
  });
  grpc::ClientContext context;
  const grpc::Status status = CallMiddle(middle, "", &context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "busy");
  EXPECT_EQ(context.GetServerTrailingMetadata()
                .find("grpc-retry-pushback-ms")
                ->second,
            "2");
  const std::string details = status.error_details();
  HintSources sources;
  sources.status_details = details;
  const ServerHint hint = ReadServerHint(sources, absl::UnixEpoch());
  EXPECT_EQ(hint.source, ServerHint::Source::kRetryInfo);
  EXPECT_EQ(hint.delay, absl::Microseconds(1500));
}

// The answer of a bare call to `middle`, and the hint in its details.
grpc::Status BareCall(const MiddleServer& middle, grpc::ClientContext* context,
                      ServerHint* hint) {
  EchoReply reply;
  grpc::Status status = EchoService::NewStub(middle.BareChannelTo())
                            ->Unary(context, EchoRequest(), &reply);
  const std::string details = status.error_details();
  HintSources sources;
  sources.status_details = details;
  *hint = ReadServerHint(sources, absl::UnixEpoch());
  return status;
}

TEST_P(EveryServerTest, RetryLaterKeepsTheRestOfAStatus) {
  wire::RpcStatus given;
  given.add_details()->set_type_url("type.googleapis.com/some.Thing");
  given.mutable_details(0)->set_value("of its own");
  wire::RetryInfo too_early;
  too_early.mutable_retry_delay()->set_seconds(0);
  given.add_details()->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  given.mutable_details(1)->set_value(too_early.SerializeAsString());
  MiddleServer middle(GetParam(), [&](grpc::ServerContextBase* inbound, auto) {
    return RetryLater(inbound, absl::Milliseconds(20),
                      {grpc::StatusCode::ABORTED, "a twin is in flight",
                       given.SerializeAsString()});
  });
  grpc::ClientContext context;
  ServerHint hint;
  const grpc::Status status = BareCall(middle, &context, &hint);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(status.error_message(), "a twin is in flight");
  EXPECT_EQ(context.GetServerTrailingMetadata()
                .find("grpc-retry-pushback-ms")
                ->second,
            "20");
  EXPECT_EQ(hint.source, ServerHint::Source::kRetryInfo);
  EXPECT_EQ(hint.delay, absl::Milliseconds(20));
  wire::RpcStatus received;
  ASSERT_TRUE(received.ParseFromString(status.error_details()));
  EXPECT_EQ(received.code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(received.message(), "a twin is in flight");
  ASSERT_EQ(received.details_size(), 2);
  EXPECT_EQ(received.details(0).value(), "of its own");
}

TEST_P(EveryServerTest, RetryLaterLeavesDetailsThatItCannotReadAlone) {
  MiddleServer middle(GetParam(), [](grpc::ServerContextBase* inbound, auto) {
    return RetryLater(
        inbound, absl::Milliseconds(20),
        {grpc::StatusCode::ABORTED, "a twin is in flight", "\xff\xff"});
  });
  grpc::ClientContext context;
  ServerHint hint;
  const grpc::Status status = BareCall(middle, &context, &hint);
  EXPECT_EQ(status.error_details(), "\xff\xff");
  EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"),
            1);
  EXPECT_FALSE(hint.present());
}

TEST_P(EveryServerTest, RetryLaterHasNothingToAddToSuccess) {
  MiddleServer middle(GetParam(), [](grpc::ServerContextBase* inbound, auto) {
    return RetryLater(inbound, absl::Milliseconds(20), grpc::Status::OK);
  });
  grpc::ClientContext context;
  ServerHint hint;
  EXPECT_TRUE(BareCall(middle, &context, &hint).ok());
  EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"),
            0);
}

TEST_P(EveryServerTest, DoNotRetryIsObeyed) {
  MakeChannel(Policy(2));
  MiddleServer middle(GetParam(), [](grpc::ServerContextBase* inbound, auto) {
    return DoNotRetry(inbound, {grpc::StatusCode::UNAVAILABLE, "for good"});
  });
  grpc::ClientContext context;
  const grpc::Status status = CallMiddle(middle, "", &context);
  EXPECT_EQ(status.error_message(), "for good");
  EXPECT_EQ(context.GetServerTrailingMetadata()
                .find("grpc-retry-pushback-ms")
                ->second,
            "-1");
}

TEST_P(EveryServerTest, AnApplicationThatRetriesItselfOwnsTheCall) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(3));
  grpc::ClientContext context;
  MarkOwned(&context, "redelivery");
  EXPECT_EQ(CallBottom(&context).error_code(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_EQ(server_.calls(), 1);
  EXPECT_THAT(server_.seen().front().Values("retry-owner"),
              ElementsAre("redelivery"));
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kAnotherLayerRetries)));
}

}  // namespace
}  // namespace retry_guard::end2end
