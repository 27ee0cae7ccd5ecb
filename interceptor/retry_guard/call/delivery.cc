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

namespace {

void Insert(const ReceivedMetadata& from, ReceivedMetadata* to) {
  to->insert(from.begin(), from.end());
}

void InsertInitialMetadata(const Answer& answer, ReceivedMetadata* to) {
  if (answer.attempt != nullptr) {
    Insert(answer.attempt->context().GetServerInitialMetadata(), to);
  } else {
    answer.kept->initial.InsertInto(to);
  }
}

void InsertTrailingMetadata(const Answer& answer, ReceivedMetadata* to) {
  if (answer.attempt != nullptr) {
    Insert(answer.attempt->context().GetServerTrailingMetadata(), to);
  } else {
    answer.kept->trailing.InsertInto(to);
  }
}

}  // namespace

void DeliverInitialMetadata(InterceptorBatchMethods* batch,
                            const Attempt& attempt) {
  Insert(attempt.context().GetServerInitialMetadata(),
         batch->GetRecvInitialMetadata());
}

void Deliver(InterceptorBatchMethods* batch, const Answer& answer,
             bool has_message) {
  const BatchWants wants(batch);
  if (wants.initial_metadata) {
    InsertInitialMetadata(answer, batch->GetRecvInitialMetadata());
  }
  // Not failing it means that a message has arrived.
  if (wants.message && !has_message) batch->FailHijackedRecvMessage();
  if (wants.status) {
    *batch->GetRecvStatus() = answer.status;
    InsertTrailingMetadata(answer, batch->GetRecvTrailingMetadata());
  }
}

void Overwrite(InterceptorBatchMethods* batch, const Answer& answer) {
  ReceivedMetadata* const initial = batch->GetRecvInitialMetadata();
  initial->clear();
  InsertInitialMetadata(answer, initial);
  *batch->GetRecvStatus() = answer.status;
  ReceivedMetadata* const trailing = batch->GetRecvTrailingMetadata();
  trailing->clear();
  InsertTrailingMetadata(answer, trailing);
}

}  // namespace retry_guard::internal
