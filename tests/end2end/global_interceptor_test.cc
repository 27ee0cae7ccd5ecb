// A global interceptor: one factory of the process, the last on every channel.

#include <memory>

#include "tests/end2end/interceptors.h"
#include "tests/end2end/kind_fixture.h"

namespace retry_guard::end2end {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// gRPC takes one, before anything else, and for good.
class GlobalFactory final : public ClientInterceptorFactoryInterface {
 public:
  Interceptor* CreateClientInterceptor(ClientRpcInfo* info) override {
    return current == nullptr ? nullptr
                              : current->CreateClientInterceptor(info);
  }
  std::unique_ptr<ClientInterceptorFactoryInterface> current;
};

GlobalFactory* Global() {
  static auto* const factory = new GlobalFactory();
  return factory;
}

const bool kRegistered = [] {
  grpc::experimental::RegisterGlobalClientInterceptorFactory(Global());
  return true;
}();

class GlobalInterceptorTest : public KindTest {};
RETRY_GUARD_WITH_EVERY_KIND(GlobalInterceptorTest);

TEST_P(GlobalInterceptorTest, SeesEachAttemptAndMayCastItsMessages) {
  ASSERT_TRUE(kRegistered);
  const auto sightings = std::make_shared<Sightings>();
  Global()->current = Watch(sightings, /*cast=*/!IsGeneric(GetParam().style));
  play_->SetScript({Down(), Down(), Good()});
  MakeChannel(Policy(4));
  CallResult result;
  {
    // The last attempt lives as long as this.
    grpc::ClientContext context;
    result = Call(&context, "a text");
  }
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.text, "a text");
  EXPECT_EQ(play_->calls(), 3);
  ASSERT_TRUE(sightings->AwaitEnded(3));
  const auto attempts = sightings->calls();
  ASSERT_EQ(attempts.size(), 3);
  for (const auto& attempt : attempts) {
    EXPECT_EQ(attempt.method,
              "/retry_guard.testing.EchoService/" + MethodOf(GetParam().shape));
    EXPECT_THAT(attempt.requests, Each("a text"));
  }
  EXPECT_EQ(attempts[2].messages_sent, 1);
  EXPECT_THAT(attempts[2].statuses, ElementsAre(grpc::StatusCode::OK));
  Global()->current = nullptr;
}

}  // namespace
}  // namespace retry_guard::end2end
