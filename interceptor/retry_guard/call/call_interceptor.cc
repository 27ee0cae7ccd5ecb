#include "retry_guard/call/call_interceptor.h"

#include <optional>
#include <utility>

#include "retry_guard/call/sync_caller.h"

namespace retry_guard::internal {

using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

CallInterceptor::CallInterceptor(std::shared_ptr<ChannelState> channel,
                                 ClientRpcInfo* info)
    : core_(std::make_shared<CallCore>(std::move(channel), info)),
      unary_(info->type() == ClientRpcInfo::Type::UNARY) {}

void CallInterceptor::Intercept(InterceptorBatchMethods* batch) {
  const bool cancels = batch->QueryInterceptionHookPoint(
      InterceptionHookPoints::PRE_SEND_CANCEL);
  const bool starts = batch->QueryInterceptionHookPoint(
      InterceptionHookPoints::PRE_SEND_INITIAL_METADATA);
  std::shared_ptr<Road> road;
  InterceptorBatchMethods* start = starts ? batch : nullptr;
  {
    absl::MutexLock lock(&mu_);
    road = road_;
    if (road == nullptr && unary_ && !cancels) {
      if (Hold(batch, starts)) return;
      if (!starts) {
        // It has the reply object that the start was waiting for.
        early_.push_back(batch);
        start = std::exchange(start_, nullptr);
      }
    }
  }
  if (cancels) {
    // Comes under the lock of the caller's context, and for a context that was
    // cancelled before its call even before there is a road.
    core_->SetCancelled();
    if (road != nullptr) road->OnCancel();
    batch->Proceed();
  } else if (road != nullptr) {
    road->OnBatch(batch);
  } else if (start != nullptr) {
    OpenRoad(start, unary_ ? batch->GetRecvMessage() : nullptr);
  } else {
    batch->Proceed();
  }
}

bool CallInterceptor::Hold(InterceptorBatchMethods* batch, bool starts) {
  if (!starts) {
    if (start_ != nullptr) return false;
    early_.push_back(batch);
    return true;
  }
  // Without a reply object the request has to tell. One that was serialised
  // already tells nothing, and belongs to a call that asks for its response
  // headers first: no reply object will come before those.
  if (batch->GetRecvMessage() != nullptr || !early_.empty()) return false;
  const void* const request = batch->GetSendMessage();
  const MethodTypes& types = core_->method().types();
  if (request == nullptr || !types.known() ||
      types.KindOfRequest(core_->channel().codec(), request) !=
          MessageKind::kUnknown) {
    return false;
  }
  start_ = batch;
  return true;
}

void CallInterceptor::OpenRoad(InterceptorBatchMethods* start,
                               const void* reply) {
  const std::shared_ptr<Road> road = ChooseRoad(start, reply);
  std::vector<InterceptorBatchMethods*> early;
  {
    absl::MutexLock lock(&mu_);
    road_ = road;
    early.swap(early_);
  }
  // A cancellation that found no road above.
  if (core_->cancelled()) road->OnCancel();
  road->OnBatch(start);
  // Each comes again if the call was hijacked.
  for (InterceptorBatchMethods* const held : early) held->Proceed();
}

std::shared_ptr<Road> CallInterceptor::ChooseRoad(
    InterceptorBatchMethods* start, const void* reply) {
  const bool relayed = unary_ && CanHandleMessages(start, reply);
  if (!relayed) {
    core_->ForbidRetries(unary_ ? Reason::kUnknownMessageType
                                : Reason::kNotRetryable);
  }
  core_->Begin(start->GetSendInitialMetadata());
  if (std::optional<KeptAnswer> refusal = core_->BeforeAttempt()) {
    return MakeRefusedRoad(*std::move(refusal));
  }
  if (!relayed) return MakeObservedRoad(core_);
  // A unary call may receive its status in its first batch, with all the rest,
  // or, if the application may look at the response headers first, later.
  const bool whole = start->GetRecvStatus() != nullptr;
  if (whole && CalledFromBlockingApi(start)) return MakeInlineRoad(core_);
  return MakeRelayRoad(core_, whole);
}

bool CallInterceptor::CanHandleMessages(InterceptorBatchMethods* start,
                                        const void* reply) {
  const MethodTypes& types = core_->method().types();
  const MessageCodec codec = core_->channel().codec();
  if (reply != nullptr) {
    return types.KindOfReply(codec, reply) != MessageKind::kUnknown;
  }
  const void* const request = start->GetSendMessage();
  if (request == nullptr) {
    return types.known() || codec != MessageCodec::kAuto;
  }
  return types.KindOfRequest(codec, request) != MessageKind::kUnknown;
}

}  // namespace retry_guard::internal
