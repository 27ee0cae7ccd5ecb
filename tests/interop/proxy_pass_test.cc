// What gets through proxies: hints to our client, its marker and its key to
// backends.

#include <string>
#include <vector>

#include "retry_guard/rpc_status.pb.h"
#include "tests/end2end/fixture.h"
#include "tests/end2end/scripted_server.h"
#include "tests/interop/proxy_fixture.h"

namespace retry_guard::interop {
namespace {

using end2end::Policy;
using end2end::ScriptedServer;
using end2end::SeenCall;
using end2end::Succeed;
using end2end::Unavailable;
using end2end::WithTrailing;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::IsEmpty;
using testing::Retries;
using testing::RetriesAfter;
using testing::Returns;
using ::testing::SizeIs;
using testing::Succeeds;

constexpr char kExactPushback[] = R"("pushbackJitter": 0)";

class ProxyPassTest : public ProxyTest {};
RETRY_GUARD_BEHIND_EVERY_PROXY(ProxyPassTest);

TEST_P(ProxyPassTest, PushbackGetsThrough) {
  const ScriptedServer backend(
      {WithTrailing(Unavailable(), "grpc-retry-pushback-ms", "40"),
       WithTrailing(Unavailable(), "grpc-retry-pushback-ms", "-1")});
  const Proxy proxy({GetParam(), {backend.address()}});
  EXPECT_THAT(DecisionsAbout(proxy, Policy(3).Guard(kExactPushback)),
              ElementsAre(RetriesAfter(Eq(absl::Milliseconds(40))),
                          Returns(Reason::kServerSaidStop)));
}

TEST_P(ProxyPassTest, RetryInfoAndRetryAfterGetThrough) {
  wire::RetryInfo info;
  info.mutable_retry_delay()->set_nanos(60'000'000);
  wire::RpcStatus details;
  auto* const any = details.add_details();
  any->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  any->set_value(info.SerializeAsString());
  const ScriptedServer backend(
      {end2end::Fail(grpc::StatusCode::UNAVAILABLE, "busy",
                     details.SerializeAsString()),
       WithTrailing(Unavailable(), "retry-after", "3600")});
  const Proxy proxy({GetParam(), {backend.address()}});
  EXPECT_THAT(DecisionsAbout(proxy, Policy(3).Guard(kExactPushback)),
              ElementsAre(RetriesAfter(Eq(absl::Milliseconds(60))),
                          Returns(Reason::kServerSaidStop)));
}

TEST_P(ProxyPassTest, TheMarkerAndTheKeyGetThrough) {
  const ScriptedServer backend({Unavailable(), Succeed()});
  const Proxy proxy({GetParam(), {backend.address()}});
  EXPECT_THAT(DecisionsAbout(proxy, Policy(3)
                                        .Method(R"("timeout": "20s")")
                                        .Guard(R"("idempotencyKey": true)")),
              ElementsAre(Retries(), Succeeds()));
  const std::vector<SeenCall> calls = backend.seen();
  ASSERT_THAT(calls, SizeIs(2));
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_THAT(calls[i].Values("retry-owner"), SizeIs(1));
    EXPECT_THAT(calls[i].Values("retry-attempt"),
                ElementsAre(std::to_string(i + 1)));
    EXPECT_THAT(calls[i].Values("retry-remaining-ms"), SizeIs(1));
    EXPECT_THAT(calls[i].Values("idempotency-key"), SizeIs(1));
  }
  EXPECT_EQ(calls[0].Values("idempotency-key"),
            calls[1].Values("idempotency-key"));
  EXPECT_THAT(calls[0].Values("grpc-previous-rpc-attempts"), IsEmpty());
  EXPECT_THAT(calls[1].Values("grpc-previous-rpc-attempts"), ElementsAre("1"));
}

}  // namespace
}  // namespace retry_guard::interop
