// A server that turns calls away, and the clients that it tells when to come
// again.

#include "retry_guard/limiter.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/end2end/fixture.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;
using retry_guard::testing::EchoService;
using ::testing::ElementsAre;
using testing::RetriesAfter;
using testing::Succeeds;

ConcurrencyLimiter::Options OnePlace() {
  ConcurrencyLimiter::Options options;
  options.max_concurrent = 1;
  return options;
}

std::string Pushback(const grpc::ClientContext& context) {
  const auto& trailing = context.GetServerTrailingMetadata();
  const auto found = trailing.find("grpc-retry-pushback-ms");
  if (found == trailing.end()) return "";
  return {found->second.data(), found->second.size()};
}

class BusyServer final : public EchoService::Service {
 public:
  BusyServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  grpc::Status Unary(grpc::ServerContext* inbound, const EchoRequest* request,
                     EchoReply* reply) override {
    const ConcurrencyLimiter::Admission admission =
        limiter_.TryAcquire(inbound);
    if (!admission.ok()) return admission.status;
    reply->set_text(request->text());
    return grpc::Status::OK;
  }

  ConcurrencyLimiter& limiter() { return limiter_; }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  ConcurrencyLimiter limiter_{OnePlace()};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(ConcurrencyLimiterTest, APermitHoldsItsPlaceUntilItIsDestroyed) {
  ConcurrencyLimiter limiter(OnePlace());
  grpc::ServerContext inbound;
  {
    ConcurrencyLimiter::Admission first = limiter.TryAcquire(&inbound);
    ASSERT_TRUE(first.ok());
    ConcurrencyLimiter::Permit moved = std::move(first.permit);
    EXPECT_FALSE(first.ok());
    EXPECT_FALSE(limiter.TryAcquire(&inbound).ok());
    EXPECT_EQ(limiter.in_use(), 1);
    moved = ConcurrencyLimiter::Permit();
    EXPECT_EQ(limiter.in_use(), 0);
    ConcurrencyLimiter::Admission second = limiter.TryAcquire(&inbound);
    EXPECT_TRUE(second.ok());
  }
  EXPECT_EQ(limiter.in_use(), 0);
}

class LimiterTest : public EndToEndTest {};

TEST_P(LimiterTest, ACallThatIsTurnedAwayComesAgainWhenItWasTold) {
  const auto clock = UseManualClock();
  BusyServer busy;
  target_ = busy.address();
  // The server's word is all that this call needs to be retried.
  MakeChannel(Policy::WithoutRetryPolicy().Guard(R"("pushbackJitter": 0)"));
  grpc::ServerContext another;
  ConcurrencyLimiter::Admission place = busy.limiter().TryAcquire(&another);
  grpc::ClientContext context;
  StartedCall call = StartUnary(&context);
  ASSERT_TRUE(clock->AwaitTimers(1));
  place.permit = ConcurrencyLimiter::Permit();
  clock->Advance(absl::Milliseconds(100));
  EXPECT_TRUE(call.Await().ok());
  EXPECT_THAT(seen_->decisions(),
              ElementsAre(RetriesAfter(absl::Milliseconds(100)), Succeeds()));
}

TEST_P(LimiterTest, AStockClientIsToldTheSame) {
  BusyServer busy;
  target_ = busy.address();
  channel_ = BareChannel();
  grpc::ServerContext another;
  const ConcurrencyLimiter::Admission place =
      busy.limiter().TryAcquire(&another);
  grpc::ClientContext context;
  EXPECT_EQ(CallUnary(&context).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Pushback(context), "100");
}

RETRY_GUARD_IN_EVERY_STYLE(LimiterTest);

}  // namespace
}  // namespace retry_guard::end2end
