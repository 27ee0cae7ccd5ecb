// Interceptors of an application, to stand before and after ours.

#ifndef RETRY_GUARD_TESTS_END2END_INTERCEPTORS_H_
#define RETRY_GUARD_TESTS_END2END_INTERCEPTORS_H_

#include <grpcpp/support/client_interceptor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace retry_guard::end2end {

using grpc::experimental::ClientInterceptorFactoryInterface;
using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

// What the interceptors of one factory have seen. A call that another
// interceptor took before any of its batches came by is none. Thread-safe.
class Sightings {
 public:
  struct Call {
    std::string method;
    std::vector<std::string> requests;  // the text of protobuf requests
    std::vector<std::string> replies;   // and of replies
    std::vector<grpc::StatusCode> statuses;
    int messages_sent = 0;
    int messages_received = 0;
    int null_messages_received = 0;  // of these: at the end of a stream
    bool ended = false;              // its interceptor is gone
  };

  int Begin(const std::string& method);
  void Update(int call, const std::function<void(Call&)>& change);

  std::vector<Call> calls() const;

  // Blocks until `count` calls have begun, and all that have begun have ended.
  bool AwaitEnded(int count) const;

 private:
  mutable absl::Mutex mu_;
  std::vector<Call> calls_ ABSL_GUARDED_BY(mu_);
};

// Looks at everything that a call shows and changes nothing. With `cast`, it
// takes messages that are there for EchoService's protobufs, as a logging
// interceptor does that knows its service; so does it read their text.
std::unique_ptr<ClientInterceptorFactoryInterface> Watch(
    std::shared_ptr<Sightings> sightings, bool cast = false);

// A factory that has no interceptor for any call.
std::unique_ptr<ClientInterceptorFactoryInterface> NoInterceptor();

// One interceptor per call, made by `make`.
std::unique_ptr<ClientInterceptorFactoryInterface> MakeEach(
    std::function<Interceptor*(ClientRpcInfo*)> make);

// The same function for every batch of every call.
std::unique_ptr<ClientInterceptorFactoryInterface> OnEachBatch(
    std::function<void(InterceptorBatchMethods*)> on_batch);

}  // namespace retry_guard::end2end

#endif  // RETRY_GUARD_TESTS_END2END_INTERCEPTORS_H_
