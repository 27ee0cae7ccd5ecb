// A server that charges once per idempotency key.

#ifndef EXAMPLES_IDEMPOTENT_CHARGE_PAYMENT_SERVER_H_
#define EXAMPLES_IDEMPOTENT_CHARGE_PAYMENT_SERVER_H_

#include <memory>
#include <string>

#include "charge_store.h"
#include "grpcpp/grpcpp.h"
#include "retry_guard/examples/charge.grpc.pb.h"
#include "trouble.h"

namespace charge {

class PaymentServer final : public retry_guard::examples::Payments::Service {
 public:
  // Both outlive it. `trouble` is to be over when it is destroyed: all requests
  // are answered first.
  PaymentServer(ChargeStore* store, Trouble* trouble);

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  grpc::Status Charge(grpc::ServerContext* context,
                      const retry_guard::examples::ChargeRequest* request,
                      retry_guard::examples::ChargeReply* reply) override;

 private:
  using Request = retry_guard::examples::ChargeRequest;
  using Reply = retry_guard::examples::ChargeReply;

  grpc::Status ChargeOnce(grpc::ServerContext* context, const std::string& key,
                          const Request& request, Reply* reply);
  grpc::Status ChargeUnprotected(const Request& request, Reply* reply);
  grpc::Status Answer(const absl::StatusOr<int64_t>& receipt, Reply* reply);

  ChargeStore* const store_;
  Trouble* const trouble_;
  int port_ = 0;  // picked by the system
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace charge

#endif  // EXAMPLES_IDEMPOTENT_CHARGE_PAYMENT_SERVER_H_
