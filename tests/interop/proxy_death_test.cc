// Proxies that are not there, that die in the middle of a call, and whose
// backend does.

#include <string>
#include <vector>

#include "tests/end2end/fixture.h"
#include "tests/end2end/scripted_server.h"
#include "tests/interop/await.h"
#include "tests/interop/backend.h"
#include "tests/interop/proxy_fixture.h"

namespace retry_guard::interop {
namespace {

using end2end::Hold;
using end2end::Policy;
using end2end::ScriptedServer;
using end2end::StartedCall;
using end2end::Style;
using end2end::Succeed;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using testing::RecordedDecision;
using testing::Retries;
using testing::RetriesAfter;
using testing::Returns;
using testing::Succeeds;

constexpr char kUnsafe[] = R"("idempotency": "NON_IDEMPOTENT")";

// For an outage that ends when the test says so.
Policy ManyAttempts() {
  return Policy(5).Backoff("0.2s").Guard(R"("maxAttempts": 20)").NoBreaker();
}
auto ByPolicy() { return Field(&RecordedDecision::resend, false); }

class ProxyDeathTest : public ProxyTest {};
RETRY_GUARD_BEHIND_EVERY_PROXY(ProxyDeathTest);

// Nothing can have been executed.
TEST_P(ProxyDeathTest, BeforeTheCallEverythingIsRepeated) {
  const ScriptedServer backend;
  Proxy proxy({GetParam(), {backend.address()}});
  proxy.Kill();
  const auto channel = Channel(proxy, ManyAttempts().Guard(kUnsafe));
  grpc::ClientContext context;
  StartedCall call(Style::kSync, channel, &context, "hi");
  ASSERT_TRUE(seen_->AwaitDecisions(2));
  proxy.Start();
  EXPECT_TRUE(call.Await().ok());
  EXPECT_THAT(seen_->decisions().front(),
              AllOf(Retries(), Saying("failed to connect to all addresses")));
  EXPECT_EQ(backend.calls(), 1);
}

TEST_P(ProxyDeathTest, InTheMiddleRepeatsWhatMayRunTwice) {
  ScriptedServer backend({Hold(), Succeed()});
  Proxy proxy({GetParam(), {backend.address()}});
  const auto channel = Channel(proxy, ManyAttempts());
  grpc::ClientContext context;
  StartedCall call(Style::kSync, channel, &context, "hi");
  ASSERT_TRUE(backend.AwaitCalls(1));
  proxy.Kill();
  ASSERT_TRUE(seen_->AwaitDecisions(1));
  proxy.Start();
  EXPECT_TRUE(call.Await().ok());
  EXPECT_THAT(seen_->decisions().front(), AllOf(Retries(), ByPolicy()));
  EXPECT_EQ(backend.calls(), 2);
}

TEST_P(ProxyDeathTest, InTheMiddleRepeatsNothingElse) {
  ScriptedServer backend({Hold()});
  Proxy proxy({GetParam(), {backend.address()}});
  const auto channel = Channel(proxy, ManyAttempts().Guard(kUnsafe));
  grpc::ClientContext context;
  StartedCall call(Style::kSync, channel, &context, "hi");
  ASSERT_TRUE(backend.AwaitCalls(1));
  proxy.Kill();
  EXPECT_FALSE(call.Await().ok());
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(Returns(Reason::kNotIdempotent,
                                  absl::StatusCode::kUnavailable)));
}

// What each proxy makes of a backend that dies with a call that it has
// executed, and what we make of that. There is another backend.
TEST_P(ProxyDeathTest, OfABackendIsToldInDifferentWords) {
  Backend first;
  Backend second;
  first.Start();
  second.Start();
  const Proxy proxy({GetParam(), {first.address(), second.address()}});
  const auto channel = Channel(proxy, Policy(5).Backoff("0.2s"));
  const auto executions = [&] {
    return Sum(first.executions(), second.executions())["id"];
  };
  grpc::ClientContext context;
  StartedCall call(Style::kSync, channel, &context, "id/1000");
  ASSERT_TRUE(Await([&] { return executions() == 1; }));
  (first.executions().empty() ? second : first).Kill();
  const grpc::Status& status = call.Await();
  const std::vector<RecordedDecision> decisions = seen_->decisions();
  switch (GetParam()) {
    case ProxyKind::kNginx:
      EXPECT_THAT(decisions,
                  ElementsAre(AllOf(Retries(), ByPolicy(),
                                    Saying("header with status: 502")),
                              Succeeds()));
      break;
    case ProxyKind::kHaproxy:
      // That it was refused, which it was not: these words are no proof.
      EXPECT_THAT(decisions.front(),
                  AllOf(RetriesAfter(absl::ZeroDuration()),
                        Field(&RecordedDecision::resend, true),
                        Saying("Received RST_STREAM with error code 7")));
      EXPECT_THAT(decisions.back(), Succeeds());
      break;
    case ProxyKind::kNghttpx:
      // Which may be anything; who wants it repeated has to list it.
      EXPECT_THAT(
          decisions,
          ElementsAre(
              AllOf(Returns(Reason::kNotRetryable, absl::StatusCode::kInternal),
                    Saying("Received RST_STREAM with error code 2"))));
      EXPECT_EQ(executions(), 1);
      return;
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(executions(), 2);
}

}  // namespace
}  // namespace retry_guard::interop
