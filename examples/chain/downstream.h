// The client side of a layer: the call to the next one, in the way of a mode.

#ifndef EXAMPLES_CHAIN_DOWNSTREAM_H_
#define EXAMPLES_CHAIN_DOWNSTREAM_H_

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "retry_guard/examples/chain.grpc.pb.h"
#include "scenario.h"

namespace chain {

// Makes the context of a call. The hand-written loop needs one per attempt.
using MakeContext = absl::FunctionRef<std::unique_ptr<grpc::ClientContext>()>;

// A channel with nothing to it: no plugin, and no retries by gRPC either.
std::shared_ptr<grpc::Channel> PlainChannel(const std::string& address);

// Thread-safe.
class Downstream {
 public:
  // `layer_name` is the caller's. Connects; throws if it cannot.
  Downstream(Mode mode, const std::string& layer_name,
             const std::string& address);

  // `remaining` is what the caller has left now.
  grpc::Status Call(absl::Duration remaining, MakeContext make_context) const;

 private:
  const Mode mode_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<retry_guard::examples::Layer::Stub> stub_;
};

}  // namespace chain

#endif  // EXAMPLES_CHAIN_DOWNSTREAM_H_
