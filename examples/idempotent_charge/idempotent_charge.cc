// A charge whose answer is lost, and what becomes of it. See README.md.

#include <cstdint>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "charge_store.h"
#include "grpcpp/grpcpp.h"
#include "payment_server.h"
#include "retry_guard/channel.h"
#include "retry_guard/examples/charge.grpc.pb.h"
#include "retry_guard/observer.h"
#include "trouble.h"

namespace charge {
namespace {

namespace pb = ::retry_guard::examples;

constexpr char kAccount[] = "ada";
constexpr int64_t kCents = 3000;
constexpr absl::Duration kDeadline = absl::Seconds(30);
constexpr absl::Duration kAttemptTimeout = absl::Seconds(1);

// The whole difference between the two: one key.
constexpr char kWithoutKeys[] = R"json({
  "methodConfig": [{
    "name": [{"service": "retry_guard.examples.Payments"}],
    "retryGuard": {"perAttemptTimeout": "1s"}
  }]
})json";
constexpr char kWithKeys[] = R"json({
  "methodConfig": [{
    "name": [{"service": "retry_guard.examples.Payments"}],
    "retryGuard": {"perAttemptTimeout": "1s", "idempotencyKey": true}
  }]
})json";

std::string CodeName(const grpc::Status& status) {
  return absl::StatusCodeToString(
      static_cast<absl::StatusCode>(status.error_code()));
}

class PrintDecisions final : public retry_guard::Observer {
  void OnDecision(const retry_guard::Decision& decision) override {
    std::cout << "  attempt " << decision.attempt << ": " << decision.code
              << " -> " << decision.verdict << " (" << decision.reason << ")"
              << std::endl;
  }
};

// A server with its books, a client, and one thing that goes wrong.
class Scene {
 public:
  Scene(int number, const std::string& title, Trouble::Kind trouble)
      : trouble_(trouble),
        store_(OpenStore()),
        server_(store_.get(), &trouble_) {
    std::cout << (number > 1 ? "\n" : "") << number << ". " << title
              << std::endl;
  }
  ~Scene() {
    trouble_.End();
    std::cout << "  charges in the books: "
              << store_->CountCharges(kAccount).value_or(-1) << std::endl;
  }

  // The loop that everybody writes once.
  void ChargeNaively() {
    const auto stub = pb::Payments::NewStub(grpc::CreateChannel(
        server_.address(), grpc::InsecureChannelCredentials()));
    for (int attempt = 1; attempt <= 3; ++attempt) {
      grpc::ClientContext context;
      context.set_deadline(absl::ToChronoTime(absl::Now() + kAttemptTimeout));
      pb::ChargeReply reply;
      const grpc::Status status =
          stub->Charge(&context, Request(kCents), &reply);
      std::cout << "  attempt " << attempt << ": " << CodeName(status)
                << std::endl;
      if (status.ok()) return PrintAnswer(status, reply);
    }
  }

  // One call through retry_guard. The application may bring a key of its own.
  void Charge(const char* policy, int64_t cents = kCents,
              const std::string& key = "") {
    const auto stub = pb::Payments::NewStub(ChannelWith(policy));
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kDeadline));
    if (!key.empty()) context.AddMetadata("idempotency-key", key);
    pb::ChargeReply reply;
    const grpc::Status status = stub->Charge(&context, Request(cents), &reply);
    PrintAnswer(status, reply);
  }

 private:
  static std::unique_ptr<ChargeStore> OpenStore() {
    auto store = ChargeStore::Open(":memory:");
    if (!store.ok()) throw std::runtime_error(store.status().ToString());
    return *std::move(store);
  }

  static pb::ChargeRequest Request(int64_t cents) {
    pb::ChargeRequest request;
    request.set_account(kAccount);
    request.set_cents(cents);
    return request;
  }

  static void PrintAnswer(const grpc::Status& status,
                          const pb::ChargeReply& reply) {
    std::cout << "  answer: " << CodeName(status);
    if (status.ok()) {
      std::cout << ", receipt " << reply.receipt();
    } else if (status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) {
      // The text of that one is gRPC's own.
      std::cout << ", " << status.error_message();
    }
    std::cout << std::endl;
  }

  std::shared_ptr<grpc::Channel> ChannelWith(const char* policy) const {
    retry_guard::InterceptorOptions options;
    options.service_config_json = policy;
    options.observers.push_back(std::make_shared<PrintDecisions>());
    auto channel = retry_guard::CreateChannel(
        server_.address(), grpc::InsecureChannelCredentials(),
        std::move(options));
    if (!channel.ok()) throw std::runtime_error(channel.status().ToString());
    return *std::move(channel);
  }

  Trouble trouble_;
  const std::unique_ptr<ChargeStore> store_;
  PaymentServer server_;
};

void Play() {
  using Kind = Trouble::Kind;
  {
    Scene scene(1, "A loop, no keys; the first answer does not come",
                Kind::kSilentAfterCharge);
    scene.ChargeNaively();
  }
  {
    Scene scene(2, "retry_guard, no keys; the first answer does not come",
                Kind::kSilentAfterCharge);
    scene.Charge(kWithoutKeys);
  }
  {
    Scene scene(3, "retry_guard, no keys; the first answer is UNAVAILABLE",
                Kind::kFailsAfterCharge);
    scene.Charge(kWithoutKeys);
  }
  {
    Scene scene(4, "retry_guard, keys; the first answer does not come",
                Kind::kSilentAfterCharge);
    scene.Charge(kWithKeys);
  }
  {
    Scene scene(5, "retry_guard, keys; the first answer is UNAVAILABLE",
                Kind::kFailsAfterCharge);
    scene.Charge(kWithKeys);
  }
  {
    Scene scene(6, "retry_guard, keys; the first attempt is still at it",
                Kind::kSlow);
    scene.Charge(kWithKeys);
  }
  {
    Scene scene(7,
                "A key of the application: sent, sent again, used for another",
                Kind::kNone);
    scene.Charge(kWithKeys, kCents, "order-17");
    scene.Charge(kWithKeys, kCents, "order-17");
    scene.Charge(kWithKeys, kCents + 1, "order-17");
  }
}

}  // namespace
}  // namespace charge

int main() {
  try {
    charge::Play();
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
