// A server whose handlers make the calls that have a parent.

#ifndef RETRY_GUARD_TESTS_STRESS_MIDDLE_SERVER_H_
#define RETRY_GUARD_TESTS_STRESS_MIDDLE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>

#include "tests/stress/ledger.h"

namespace retry_guard::stress {

class MiddleServer {
 public:
  using MakeCall = std::function<Result(Record&, grpc::ServerContext*)>;

  MiddleServer(Ledger* ledger, MakeCall make_call);
  ~MiddleServer();

  // Makes the call of `record` on behalf of an inbound one, which has its
  // deadline and its cancellation. Nothing: the inbound call has ended before
  // that began.
  std::optional<Result> Relay(Record& record);

 private:
  class Service;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace retry_guard::stress

#endif  // RETRY_GUARD_TESTS_STRESS_MIDDLE_SERVER_H_
