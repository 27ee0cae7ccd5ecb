// A server of ours, with the server interceptor, for clients that know nothing
// of retry_guard.

#ifndef RETRY_GUARD_TESTS_INTEROP_OUR_SERVER_H_
#define RETRY_GUARD_TESTS_INTEROP_OUR_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "retry_guard/testing/echo.grpc.pb.h"

namespace retry_guard::interop {

class OurServer {
 public:
  // What to answer to call number n, from 0; OK replies echo the text.
  using Handler = std::function<grpc::Status(int n, grpc::ServerContext*)>;

  explicit OurServer(Handler handler);
  ~OurServer();

  const std::string& address() const { return address_; }
  // When the calls came in.
  std::vector<absl::Time> arrivals() const;
  // Between arrival n and the next one.
  absl::Duration GapAfter(int n) const;

 private:
  class Service final : public retry_guard::testing::EchoService::Service {
   public:
    explicit Service(Handler handler);
    grpc::Status Unary(grpc::ServerContext* context,
                       const retry_guard::testing::EchoRequest* request,
                       retry_guard::testing::EchoReply* reply) override;
    std::vector<absl::Time> arrivals() const;

   private:
    const Handler handler_;
    mutable absl::Mutex mu_;
    std::vector<absl::Time> arrivals_ ABSL_GUARDED_BY(mu_);
  };

  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace retry_guard::interop

#endif  // RETRY_GUARD_TESTS_INTEROP_OUR_SERVER_H_
