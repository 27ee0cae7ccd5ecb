// The inbound side: what a server in the middle of a chain carries over to its
// own calls, and what it tells its callers.

#include "retry_guard/server.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "retry_guard/call/inbound_call.h"
#include "retry_guard/policy/pushback.h"
#include "retry_guard/rpc_status.pb.h"
#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Returns;

// Serves a call on a thread that may block. `from_server` is the context that
// ClientContext::FromServerContext makes of it.
using Handler = std::function<grpc::Status(
    grpc::ServerContextBase* inbound,
    std::unique_ptr<grpc::ClientContext> from_server)>;

enum class ServerKind { kSync, kCallback };

class MiddleServer {
 public:
  MiddleServer(ServerKind kind, Handler handler,
               std::optional<Inbound> interceptor = std::nullopt)
      : sync_(handler), callback_(handler) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    if (kind == ServerKind::kSync) {
      builder.RegisterService(&sync_);
    } else {
      builder.RegisterService(&callback_);
    }
    if (interceptor.has_value()) {
      std::vector<std::unique_ptr<
          grpc::experimental::ServerInterceptorFactoryInterface>>
          creators;
      creators.push_back(CreateServerInterceptorFactory(*interceptor));
      builder.experimental().SetInterceptorCreators(std::move(creators));
    }
    server_ = builder.BuildAndStart();
  }
  ~MiddleServer() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  std::shared_ptr<grpc::Channel> BareChannelTo() const {
    return grpc::CreateChannel(absl::StrCat("127.0.0.1:", port_),
                               grpc::InsecureChannelCredentials());
  }

 private:
  class Sync final : public EchoService::Service {
   public:
    explicit Sync(Handler handler) : handler_(std::move(handler)) {}
    grpc::Status Unary(grpc::ServerContext* context, const EchoRequest*,
                       EchoReply*) override {
      return handler_(context,
                      grpc::ClientContext::FromServerContext(*context));
    }

   private:
    const Handler handler_;
  };

  class Callback final : public EchoService::CallbackService {
   public:
    explicit Callback(Handler handler) : handler_(std::move(handler)) {}
    ~Callback() override {
      absl::MutexLock lock(&mu_);
      for (std::thread& thread : threads_) thread.join();
    }
    grpc::ServerUnaryReactor* Unary(grpc::CallbackServerContext* context,
                                    const EchoRequest*, EchoReply*) override {
      grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
      absl::MutexLock lock(&mu_);
      threads_.emplace_back([this, context, reactor] {
        auto from_server =
            grpc::ClientContext::FromCallbackServerContext(*context);
        reactor->Finish(handler_(context, std::move(from_server)));
      });
      return reactor;
    }

   private:
    const Handler handler_;
    absl::Mutex mu_;
    std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
  };

  Sync sync_;
  Callback callback_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

// The bottom of the chain is `server_`, reached through `channel_`.
class ServerTest : public EndToEndTest {
 protected:
  grpc::Status CallBottom(grpc::ClientContext* context) {
    return Call(Style::kSync, channel_, context).status;
  }

  // A handler that calls the bottom, as `ContinueFrom` has it.
  Handler Continue(Inbound trust = Inbound::kTrusted) {
    return [this, trust](grpc::ServerContextBase* inbound, auto) {
      grpc::ClientContext outbound;
      ContinueFrom(*inbound, &outbound, trust);
      return CallBottom(&outbound);
    };
  }

  // One that does nothing but FromServerContext.
  Handler FromServer() {
    return [this](grpc::ServerContextBase*,
                  std::unique_ptr<grpc::ClientContext> outbound) {
      return CallBottom(outbound.get());
    };
  }

  // Calls the middle as a layer above would, marked by `owner` if that is not
  // empty.
  grpc::Status CallMiddle(const MiddleServer& middle, const std::string& owner,
                          grpc::ClientContext* context) {
    if (!owner.empty()) {
      context->AddMetadata("retry-owner", owner);
      context->AddMetadata("retry-attempt", "2");
      context->AddMetadata("retry-remaining-ms", "5000");
    }
    return Call(Style::kSync, middle.BareChannelTo(), context).status;
  }
  grpc::Status CallMiddle(const MiddleServer& middle,
                          const std::string& owner = "") {
    grpc::ClientContext context;
    return CallMiddle(middle, owner, &context);
  }
};

std::string ServerParamName(const ::testing::TestParamInfo<Style>& info) {
  return StyleName(info.param);
}

// The style of the calls does not matter here; that of the server does.
class EveryServerTest : public ServerTest {
 protected:
  // Sync stands for a sync server, Callback for a callback server.
  ServerKind kind() const {
    return GetParam() == Style::kSync ? ServerKind::kSync
                                      : ServerKind::kCallback;
  }
};
INSTANTIATE_TEST_SUITE_P(Servers, EveryServerTest,
                         ::testing::Values(Style::kSync, Style::kCallback),
                         ServerParamName);

TEST_P(EveryServerTest, ContinueFromCarriesTheMarkerAndTheLayerDoesNotRetry) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(3));
  MiddleServer middle(kind(), Continue());
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
  MiddleServer middle(kind(), Continue(Inbound::kUntrusted));
  CallMiddle(middle, "stranger");
  ASSERT_EQ(server_.calls(), 3);
  EXPECT_THAT(Snapshot().refusals,
              ElementsAre(::testing::Pair(Reason::kAttemptsExhausted, 1)));
  for (const SeenCall& seen : server_.seen()) {
    EXPECT_NE(seen.Values("retry-owner"), std::vector<std::string>{"stranger"});
  }
}

TEST_P(EveryServerTest, NothingElseOfTheInboundCallTravelsOn) {
  MakeChannel(Policy(3));
  MiddleServer middle(kind(), Continue());
  grpc::ClientContext context;
  context.AddMetadata("idempotency-key", "of-this-call-alone");
  context.AddMetadata("authorization-like", "secret");
  EXPECT_TRUE(CallMiddle(middle, "gateway", &context).ok());
  EXPECT_THAT(server_.seen().front().Values("idempotency-key"), IsEmpty());
  EXPECT_THAT(server_.seen().front().Values("authorization-like"), IsEmpty());
}

TEST_P(EveryServerTest, TheDeadlineNeverGrowsDownTheChain) {
  MakeChannel(Policy(3));
  MiddleServer middle(kind(), Continue());
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

TEST_P(EveryServerTest, ACancelledInboundCallEndsTheOutboundOne) {
  server_.SetScript({Hold()});
  MakeChannel(Policy(3));
  MiddleServer middle(kind(), Continue());
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
  MiddleServer middle(kind(), FromServer(), Inbound::kTrusted);
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
  MiddleServer middle(kind(), FromServer(), Inbound::kUntrusted);
  CallMiddle(middle, "stranger");
  EXPECT_EQ(server_.calls(), 3);
}

TEST_P(EveryServerTest, TheInterceptorShowsTheInboundDeadlineToTheFitCheck) {
  server_.SetScript({Unavailable("the real one")});
  // Without the interceptor this would wait, and end DEADLINE_EXCEEDED.
  MakeChannel(Policy(3).Backoff("60s").Guard(R"("jitter": "NONE")"));
  MiddleServer middle(kind(), FromServer(), Inbound::kTrusted);
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
    MiddleServer middle(kind(), FromServer(), Inbound::kTrusted);
    for (int i = 0; i < 50; ++i)
      CallMiddle(middle, i % 2 == 0 ? "gateway" : "");
  }
  EXPECT_EQ(internal::InboundCalls::OfThisProcess().size(), 0);
}

TEST_P(EveryServerTest, ALayerThatRetriesHereTellsThoseAboveNotTo) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(2).Guard(R"("layer": "HERE")"));
  MiddleServer middle(kind(), FromServer(), Inbound::kTrusted);
  grpc::ClientContext context;
  CallMiddle(middle, "gateway", &context);
  EXPECT_EQ(server_.calls(), 2);
  EXPECT_NE(server_.seen().front().Values("retry-owner"),
            std::vector<std::string>{"gateway"});
  const auto& trailing = context.GetServerTrailingMetadata();
  ASSERT_EQ(trailing.count("grpc-retry-pushback-ms"), 1);
  EXPECT_EQ(trailing.find("grpc-retry-pushback-ms")->second, "-1");
}

TEST_P(EveryServerTest, AHandlersOwnPushbackStays) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(2).Guard(R"("layer": "HERE")"));
  const Handler call = FromServer();
  MiddleServer middle(
      kind(),
      [&](grpc::ServerContextBase* inbound, auto from_server) {
        call(inbound, std::move(from_server));
        return RetryLater(inbound, absl::Milliseconds(7), "mine");
      },
      Inbound::kTrusted);
  grpc::ClientContext context;
  CallMiddle(middle, "", &context);
  const auto& trailing = context.GetServerTrailingMetadata();
  ASSERT_EQ(trailing.count("grpc-retry-pushback-ms"), 1);
  EXPECT_EQ(trailing.find("grpc-retry-pushback-ms")->second, "7");
}

TEST_P(EveryServerTest, ABreakerRefusalTellsThoseAboveWhenToComeAgain) {
  server_.SetScript({Unavailable()});
  MakeChannel(Policy(2).Breaker(R"("failureRate": 0, "consecutiveFailures": 1,
                                   "openFor": "5s")"));
  MiddleServer middle(kind(), FromServer(), Inbound::kTrusted);
  CallMiddle(middle, "gateway");  // opens it
  grpc::ClientContext context;
  EXPECT_EQ(CallMiddle(middle, "gateway", &context).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server_.calls(), 1);
  const auto& trailing = context.GetServerTrailingMetadata();
  ASSERT_EQ(trailing.count("grpc-retry-pushback-ms"), 1);
  const auto value = trailing.find("grpc-retry-pushback-ms")->second;
  const int ms = std::stoi(std::string(value.data(), value.size()));
  EXPECT_GT(ms, 0);
  EXPECT_LE(ms, 6000);
}

TEST_P(EveryServerTest, RetryLaterSpeaksToEveryClient) {
  MakeChannel(Policy(2));
  MiddleServer middle(kind(), [](grpc::ServerContextBase* inbound, auto) {
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
  MiddleServer middle(kind(), [&](grpc::ServerContextBase* inbound, auto) {
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
  MiddleServer middle(kind(), [](grpc::ServerContextBase* inbound, auto) {
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
  MiddleServer middle(kind(), [](grpc::ServerContextBase* inbound, auto) {
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
  MiddleServer middle(kind(), [](grpc::ServerContextBase* inbound, auto) {
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
