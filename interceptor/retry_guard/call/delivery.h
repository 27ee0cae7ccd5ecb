// Hands an answer to the batches of a hijacked call.

#ifndef RETRY_GUARD_CALL_DELIVERY_H_
#define RETRY_GUARD_CALL_DELIVERY_H_

#include <grpcpp/support/interceptor.h>

#include <memory>
#include <optional>

#include "retry_guard/call/attempt.h"
#include "retry_guard/call/call_core.h"

namespace retry_guard::internal {

// The answer of a call: an attempt that is kept, or words that were kept of one
// (or made by us). What it delivers refers to it: it must live as long as the
// caller's context, which is what an interceptor does.
struct Answer {
  grpc::Status status;
  std::shared_ptr<Attempt> attempt;  // the source of metadata and message
  std::optional<KeptAnswer> kept;    // or this
  bool has_message = false;

  static Answer FromAttempt(std::shared_ptr<Attempt> attempt,
                            grpc::Status status, bool got_message);
  static Answer FromKept(KeptAnswer kept);
};

// Which parts of an answer a hijacked batch waits for.
struct BatchWants {
  explicit BatchWants(grpc::experimental::InterceptorBatchMethods* batch);

  bool initial_metadata = false;
  bool message = false;
  bool status = false;

  bool anything() const { return initial_metadata || message || status; }
};

void DeliverInitialMetadata(grpc::experimental::InterceptorBatchMethods* batch,
                            const Attempt& attempt);

// Fills in what `batch` waits for; the message itself, if there is one, must be
// in its object already. Does not Proceed.
void Deliver(grpc::experimental::InterceptorBatchMethods* batch,
             const Answer& answer, bool has_message);
// Status and metadata for a batch that was not hijacked and has received an
// answer of its own, which this one replaces.
void Overwrite(grpc::experimental::InterceptorBatchMethods* batch,
               const Answer& answer);

inline void Deliver(grpc::experimental::InterceptorBatchMethods* batch,
                    const Answer& answer) {
  Deliver(batch, answer, answer.has_message);
}

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_CALL_DELIVERY_H_
