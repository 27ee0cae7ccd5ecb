#include "payment_server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "retry_guard/server.h"

namespace charge {
namespace {

namespace pb = ::retry_guard::examples;
using Kind = ChargeStore::Admission::Kind;

// When a twin of a request that is in flight should come again.
constexpr absl::Duration kComeAgainIn = absl::Milliseconds(20);

// Empty without one.
std::string KeyOf(const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("idempotency-key");
  if (found == metadata.end()) return "";
  return {found->second.data(), found->second.size()};
}

// All that matters of a request, so short that it need not be hashed. Not its
// bytes: the same message may be serialised in several ways.
std::string Fingerprint(const pb::ChargeRequest& request) {
  return absl::StrCat(request.cents(), " from ", request.account());
}

Charge ChargeOf(const pb::ChargeRequest& request) {
  return {request.account(), request.cents()};
}

grpc::Status DatabaseTrouble(const absl::Status& status) {
  return {grpc::StatusCode::INTERNAL, std::string(status.message())};
}

}  // namespace

PaymentServer::PaymentServer(ChargeStore* store, Trouble* trouble)
    : store_(store), trouble_(trouble) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

grpc::Status PaymentServer::Charge(grpc::ServerContext* context,
                                   const Request* request, Reply* reply) {
  const std::string key = KeyOf(*context);
  return key.empty() ? ChargeUnprotected(*request, reply)
                     : ChargeOnce(context, key, *request, reply);
}

grpc::Status PaymentServer::ChargeOnce(grpc::ServerContext* context,
                                       const std::string& key,
                                       const Request& request, Reply* reply) {
  absl::StatusOr<ChargeStore::Admission> admission =
      store_->Admit(key, Fingerprint(request));
  if (!admission.ok()) return DatabaseTrouble(admission.status());
  switch (admission->kind) {
    case Kind::kNew:
      break;
    case Kind::kDone:
      return Answer(admission->receipt, reply);
    case Kind::kInFlight:
      trouble_->TwinCame();
      return retry_guard::RetryLater(
          context, kComeAgainIn,
          {grpc::StatusCode::ABORTED, "this very request is in flight"});
    case Kind::kOtherRequest:
      return retry_guard::DoNotRetry(context,
                                     {grpc::StatusCode::INVALID_ARGUMENT,
                                      "the key belongs to another request"});
  }
  trouble_->BeforeCharge();
  const absl::StatusOr<int64_t> receipt =
      store_->Commit(*std::move(admission->claim), ChargeOf(request));
  trouble_->AfterCharge();
  return Answer(receipt, reply);
}

grpc::Status PaymentServer::ChargeUnprotected(const Request& request,
                                              Reply* reply) {
  trouble_->BeforeCharge();
  const absl::StatusOr<int64_t> receipt =
      store_->CommitUnprotected(ChargeOf(request));
  trouble_->AfterCharge();
  return Answer(receipt, reply);
}

grpc::Status PaymentServer::Answer(const absl::StatusOr<int64_t>& receipt,
                                   Reply* reply) {
  if (!receipt.ok()) return DatabaseTrouble(receipt.status());
  reply->set_receipt(*receipt);
  return trouble_->Answer();
}

}  // namespace charge
