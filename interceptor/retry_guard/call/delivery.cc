#include "retry_guard/call/delivery.h"

#include <utility>

namespace retry_guard::internal {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

Answer Answer::FromAttempt(std::shared_ptr<Attempt> attempt,
                           grpc::Status status, bool got_message) {
  Answer answer;
  answer.status = std::move(status);
  answer.has_message = got_message && answer.status.ok();
  answer.attempt = std::move(attempt);
  return answer;
}

Answer Answer::FromKept(KeptAnswer kept) {
  Answer answer;
  answer.status = kept.status;
  answer.kept = std::move(kept);
  return answer;
}

BatchWants::BatchWants(InterceptorBatchMethods* batch)
    : initial_metadata(batch->QueryInterceptionHookPoint(
          InterceptionHookPoints::PRE_RECV_INITIAL_METADATA)),
      message(batch->QueryInterceptionHookPoint(
          InterceptionHookPoints::PRE_RECV_MESSAGE)),
      status(batch->QueryInterceptionHookPoint(
          InterceptionHookPoints::PRE_RECV_STATUS)) {}

void DeliverInitialMetadata(InterceptorBatchMethods* batch,
                            const Attempt& attempt) {
  const ReceivedMetadata& from = attempt.context().GetServerInitialMetadata();
  batch->GetRecvInitialMetadata()->insert(from.begin(), from.end());
}

void Deliver(InterceptorBatchMethods* batch, const Answer& answer,
             bool has_message) {
  const BatchWants wants(batch);
  if (wants.initial_metadata) {
    if (answer.attempt != nullptr) {
      DeliverInitialMetadata(batch, *answer.attempt);
    } else {
      answer.kept->initial.InsertInto(batch->GetRecvInitialMetadata());
    }
  }
  // Not failing it means that a message has arrived.
  if (wants.message && !has_message) batch->FailHijackedRecvMessage();
  if (wants.status) {
    *batch->GetRecvStatus() = answer.status;
    ReceivedMetadata* const to = batch->GetRecvTrailingMetadata();
    if (answer.attempt != nullptr) {
      const ReceivedMetadata& from =
          answer.attempt->context().GetServerTrailingMetadata();
      to->insert(from.begin(), from.end());
    } else {
      answer.kept->trailing.InsertInto(to);
    }
  }
}

}  // namespace retry_guard::internal
