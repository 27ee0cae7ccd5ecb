// The operations of a unary call that the application itself makes.
//
// When such a call is answered by something else than what it received, two
// flags have to follow that no hook can set: whether there is a message, and
// whether the batch succeeds. They are found by the dynamic type of the
// operations, and the few private members in question are named by explicit
// template instantiation, which may name them: ordinary C++, checked by the
// compiler, tried with gRPC 1.51 and 1.83. Operations of any other type are
// simply not recognised; then the call takes a road that needs none of this.

#ifndef RETRY_GUARD_CALL_UNARY_OPS_H_
#define RETRY_GUARD_CALL_UNARY_OPS_H_

#include <grpcpp/support/client_interceptor.h>
#include <grpcpp/support/interceptor.h>

#include "retry_guard/call/codec.h"

namespace retry_guard::internal {

// A view: valid as long as the call's batch.
class UnaryOps {
 public:
  // Those behind `batch`, the one batch of a call that receives into a reply of
  // `kind`. Empty (false) if they are not recognised.
  static UnaryOps Behind(grpc::experimental::InterceptorBatchMethods* batch,
                         MessageKind kind);

  UnaryOps() = default;
  explicit operator bool() const { return got_message_ != nullptr; }

  // Once received. False: there was a reply, but it cannot be decoded.
  bool succeeded() const { return *succeeded_; }

  // Once received. A failed call, too, may have brought a message.
  bool touched_reply() const { return *got_message_ || !*succeeded_; }

  // Something else is the answer now; null: without a message. Interceptors
  // before ours see it so, too.
  void Overwrite(void* message) const;

 private:
  grpc::internal::InterceptorBatchMethodsImpl* methods_ = nullptr;
  bool* got_message_ = nullptr;
  bool* succeeded_ = nullptr;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_UNARY_OPS_H_
