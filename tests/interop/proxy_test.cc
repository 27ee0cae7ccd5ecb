// Real proxies between our client and real backends: what they answer when they
// have nobody to pass a call to, and what survives restarts and kills.

#include "tests/interop/proxy.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/end2end/fixture.h"
#include "tests/interop/backend.h"
#include "tests/interop/load.h"
#include "tests/interop/proxy_fixture.h"

namespace retry_guard::interop {
namespace {

using end2end::Policy;
using end2end::Style;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Le;
using testing::RetriesAfter;
using testing::Returns;
using testing::Succeeds;

constexpr char kSafe[] = R"("idempotency": "IDEMPOTENT")";
constexpr char kUnsafe[] = R"("idempotency": "NON_IDEMPOTENT")";
// As what a call sees a backend restart: gRPC's server cancels what comes in
// while it shuts down, and HAProxy breaks streams off. UNAVAILABLE alone is not
// enough.
constexpr char kCodesOfARestart[] =
    R"("UNAVAILABLE", "CANCELLED", "UNKNOWN", "INTERNAL")";
constexpr int kRounds = 5;
// How many calls are made before the next thing happens.
constexpr int kSomeCalls = 40;

RETRY_GUARD_BEHIND_EVERY_PROXY(ProxyTest);

auto RetriesAtOurOwnPace() { return RetriesAfter(Le(absl::Milliseconds(1))); }

TEST_P(ProxyTest, ABackendThatIsDownIsRetriedAtOurOwnPaceIfThatIsSafe) {
  const Backend backend;
  const Proxy proxy({GetParam(), {backend.address()}});
  const char* const error =
      GetParam() == ProxyKind::kHaproxy ? "status: 503" : "status: 502";
  EXPECT_THAT(DecisionsAbout(proxy, Policy(3)),
              AllOf(ElementsAre(RetriesAtOurOwnPace(), RetriesAtOurOwnPace(),
                                Returns(Reason::kAttemptsExhausted)),
                    Each(Saying(error))));
  EXPECT_THAT(DecisionsAbout(proxy, Policy(3).Guard(kUnsafe)),
              ElementsAre(Returns(Reason::kNotIdempotent)));
}

// nghttpx knows no rate limit.
TEST_P(ProxyTest, ARateLimitIsRetriedAtOurOwnPace) {
  ProxySetup setup = {GetParam(), {}};
  Backend backend;
  backend.Start();
  setup.backends = {backend.address()};
  switch (GetParam()) {
    case ProxyKind::kNginx:
      setup.location =
          "limit_req zone=once; limit_req_status 429; "
          "add_header retry-after 3600 always; grpc_pass grpc://backends;";
      break;
    case ProxyKind::kHaproxy:
      setup.extra =
          "  acl more sc0_http_req_cnt(calls) gt 1\n"
          "  stick-table type ip size 1k expire 1h store http_req_cnt\n"
          "  http-request track-sc0 src\n"
          "  http-request deny deny_status 429 hdr retry-after 3600 if more\n";
      break;
    case ProxyKind::kNghttpx:
      GTEST_SKIP();
  }
  const Proxy proxy(setup);
  EXPECT_THAT(DecisionsAbout(proxy, Policy(2)), ElementsAre(Succeeds()));
  EXPECT_THAT(DecisionsAbout(proxy, Policy(2)),
              AllOf(ElementsAre(RetriesAtOurOwnPace(),
                                Returns(Reason::kAttemptsExhausted)),
                    Each(Saying("status: 429"))));
}

// What the README tells their owners to do. nghttpx cannot be taught it.
TEST_P(ProxyTest, RetryAfterIsHeardFromAProxyThatAnswersLikeGrpc) {
  const Backend backend;
  ProxySetup setup = {GetParam(), {backend.address()}};
  switch (GetParam()) {
    case ProxyKind::kNginx:
      setup.extra =
          "error_page 502 = @down; location @down { "
          "default_type application/grpc; add_header grpc-status 14 always; "
          "add_header retry-after 3600 always; return 204; }";
      break;
    case ProxyKind::kHaproxy:
      setup.extra =
          "  http-request return status 200 content-type application/grpc "
          "hdr grpc-status 14 hdr retry-after 3600\n";
      break;
    case ProxyKind::kNghttpx:
      GTEST_SKIP();
  }
  const Proxy proxy(setup);
  EXPECT_THAT(DecisionsAbout(proxy, Policy(3)),
              ElementsAre(Returns(Reason::kServerSaidStop,
                                  absl::StatusCode::kUnavailable)));
}

TEST_P(ProxyTest, ABackendKilledMidCallIsNotAskedAgainIfItMustNotRunTwice) {
  Backend backend;
  backend.Start();
  const Proxy proxy({GetParam(), {backend.address()}});
  const auto channel = Channel(proxy, Policy(3).Guard(kUnsafe));
  grpc::ClientContext context;
  end2end::StartedCall call(Style::kReactor, channel, &context, "once/60000");
  ASSERT_TRUE(backend.AwaitExecution("once"));
  backend.Kill();
  backend.Start();
  EXPECT_FALSE(call.Await().ok());
  EXPECT_EQ(seen_->decisions().size(), 1u);
  EXPECT_EQ(backend.executions().at("once"), 1);
}

std::vector<std::string> Failures(
    const std::map<std::string, grpc::Status>& results) {
  std::vector<std::string> failures;
  for (const auto& [id, status] : results) {
    if (status.ok()) continue;
    failures.push_back(id + ": " + std::to_string(status.error_code()) + " " +
                       status.error_message());
  }
  return failures;
}

// Styles that are not shown response headers before the end. HAProxy passes on
// the headers of an answer whose rest then dies with its backend, and a call
// that has been shown them cannot be repeated any more: kCommitted.
std::vector<Style> StylesThatWaitForTheEnd() {
  return {Style::kSync, Style::kCallback, Style::kQueue,
          Style::kGenericCallback};
}

std::vector<Style> StylesOfAllRoads() {
  return {Style::kSync, Style::kCallback, Style::kReactor, Style::kQueue};
}

// Of calls that must run once at most.
std::vector<std::string> Duplicates(const Executions& executions) {
  std::vector<std::string> duplicates;
  for (const auto& [id, count] : executions) {
    if (absl::StartsWith(id, "Unary-") && count > 1) duplicates.push_back(id);
  }
  return duplicates;
}

// Two backends, and users of both kinds of calls, each with a channel of its
// own.
class ProxyRestartTest : public ProxyTest {
 protected:
  void SetUp() override {
    ProxyTest::SetUp();
    if (IsSkipped()) return;
    for (Backend& backend : backends_) backend.Start();
    proxy_.emplace(ProxySetup{
        GetParam(), {backends_[0].address(), backends_[1].address()}});
    repeatable_.emplace(
        Channel(*proxy_,
                Policy(5).Backoff("0.2s").Codes(kCodesOfARestart).Guard(kSafe)),
        "Idempotent", StylesThatWaitForTheEnd());
    once_.emplace(
        Channel(
            *proxy_,
            Policy(5).Backoff("0.2s").Codes(kCodesOfARestart).Guard(kUnsafe)),
        "Unary", StylesOfAllRoads());
  }

  void ExpectProgress() {
    EXPECT_TRUE(repeatable_->AwaitCalls(kSomeCalls));
    EXPECT_TRUE(once_->AwaitCalls(kSomeCalls));
  }

  Executions ExecutionsUntilNow() const {
    return Sum(backends_[0].executions(), backends_[1].executions());
  }
  std::vector<std::string> DuplicatesUntilNow() const {
    return Duplicates(ExecutionsUntilNow());
  }
  // Calls that failed and were executed all the same.
  int LostAnswers(const std::map<std::string, grpc::Status>& results) const {
    const Executions executions = ExecutionsUntilNow();
    int lost = 0;
    for (const auto& [id, status] : results) {
      if (!status.ok() && executions.count(id) > 0) ++lost;
    }
    return lost;
  }

  std::array<Backend, 2> backends_;
  std::optional<Proxy> proxy_;
  std::optional<Load> repeatable_;
  std::optional<Load> once_;
};
RETRY_GUARD_BEHIND_EVERY_PROXY(ProxyRestartTest);

// A proxy may hide a restart well enough for no call to notice: then there is
// nothing to repeat.
TEST_P(ProxyRestartTest, RollingRestartsFailNoCallThatMayBeRepeated) {
  ExpectProgress();
  for (int round = 0; round < kRounds; ++round) {
    for (Backend& backend : backends_) {
      backend.Stop();
      ExpectProgress();
      backend.Start();
      // The proxy has found it.
      ASSERT_TRUE(backend.AwaitAnyExecution());
    }
  }
  EXPECT_THAT(Failures(repeatable_->Stop()), IsEmpty());
  once_->Stop();
  EXPECT_THAT(DuplicatesUntilNow(), IsEmpty());
}

TEST_P(ProxyRestartTest, AReloadOfTheProxyFailsNoCallThatMayBeRepeated) {
  ExpectProgress();
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<pid_t> old = proxy_->Reload();
    ExpectProgress();
    EXPECT_TRUE(Proxy::AwaitEnd(old));
  }
  EXPECT_THAT(Failures(repeatable_->Stop()), IsEmpty());
  once_->Stop();
  EXPECT_THAT(DuplicatesUntilNow(), IsEmpty());
}

// HAProxy then says of calls that were executed that it has refused them.
TEST_P(ProxyRestartTest, AKilledBackendMakesNothingRunTwiceThatMustNot) {
  ExpectProgress();
  for (Backend& backend : backends_) {
    backend.Kill();
    ExpectProgress();
    backend.Start();
    ASSERT_TRUE(backend.AwaitAnyExecution());
  }
  repeatable_->Stop();
  const auto results = once_->Stop();
  EXPECT_THAT(DuplicatesUntilNow(), IsEmpty());
  // Some were executed and lost their answer: it could have gone wrong.
  EXPECT_GT(LostAnswers(results), 0);
}

}  // namespace
}  // namespace retry_guard::interop
