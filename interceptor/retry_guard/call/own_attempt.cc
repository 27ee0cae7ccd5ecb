#include "retry_guard/call/own_attempt.h"

#include "retry_guard/call/grpc_access.h"

namespace retry_guard::internal {

UnaryOps OwnAttempt::OpsOf(const CallCore& core, Batch start) {
  if (start->GetRecvStatus() == nullptr || !core.first_attempt_is_callers()) {
    return {};
  }
  return UnaryOps::Behind(start, core.ReplyAt(start->GetRecvMessage()).kind);
}

void OwnAttempt::Start(Batch batch) {
  reply_ = core_.ReplyAt(batch->GetRecvMessage());
  core_.FillMetadata(batch->GetSendInitialMetadata());
}

CallCore::Next OwnAttempt::End(Batch batch, bool seen_late) {
  grpc::Status& status = *batch->GetRecvStatus();
  const bool undecodable = status.ok() && !ops_.succeeded();
  if (undecodable) status = UndecodableReply();
  CallCore::Ended ended{status, *core_.caller()};
  ended.seen_late = seen_late;
  const CallCore::Next next = core_.AfterAttempt(ended);
  if (next.retry) {
    core_.RestoreMetadata();
    if (ops_.touched_reply()) reply_.Clear();
  } else if (undecodable) {
    ops_.Overwrite(nullptr);
  }
  return next;
}

void OwnAttempt::Overwrite(Batch batch, const Answer& answer) const {
  internal::Overwrite(batch, answer);
  if (answer.attempt != nullptr) {
    GrpcAccess::SetDebugErrorString(
        answer.attempt->context().debug_error_string(), core_.caller());
  }
  ops_.Overwrite(answer.has_message ? reply_.object : nullptr);
}

}  // namespace retry_guard::internal
