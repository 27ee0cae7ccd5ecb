#include "retry_guard/call/call_interceptor.h"

#include <optional>
#include <utility>

#include "retry_guard/call/own_attempt.h"
#include "retry_guard/call/sent_message.h"
#include "retry_guard/call/sync_caller.h"

namespace retry_guard::internal {

using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

CallInterceptor::CallInterceptor(std::shared_ptr<ChannelState> channel,
                                 ClientRpcInfo* info)
    : core_(std::make_shared<CallCore>(std::move(channel), info)),
      unary_(info->type() == ClientRpcInfo::Type::UNARY) {}

CallInterceptor::~CallInterceptor() {
  std::shared_ptr<Road> road;
  {
    MutexLock lock(mu_);
    road = road_;
  }
  if (road != nullptr) road->OnDropped();
}

void CallInterceptor::Intercept(InterceptorBatchMethods* batch) {
  const bool cancels = batch->QueryInterceptionHookPoint(
      InterceptionHookPoints::PRE_SEND_CANCEL);
  // Before the lock: a road that is opened meanwhile either sees it, or is seen
  // by us. For a context that was cancelled before its call this comes even
  // before there is a call to start.
  if (cancels) core_->SetCancelled();
  const bool starts = batch->QueryInterceptionHookPoint(
      InterceptionHookPoints::PRE_SEND_INITIAL_METADATA);
  std::shared_ptr<Road> road;
  Early early = Early::kGoesOn;
  InterceptorBatchMethods* start = nullptr;
  {
    MutexLock lock(mu_);
    road = road_;
    if (road == nullptr && cancels) {
      if (early_ != nullptr && !opening_) early_->ReleaseSoon();
    } else if (road == nullptr) {
      early = TakeEarly(batch, starts, &start);
    }
  }
  if (cancels) {
    // This comes under the lock of the caller's context.
    if (road != nullptr) road->OnCancel();
    batch->Proceed();
  } else if (road != nullptr) {
    road->OnBatch(batch);
  } else if (early == Early::kStarts) {
    OpenRoad(start, unary_ ? batch->GetRecvMessage() : nullptr);
  } else if (early == Early::kGoesOn) {
    batch->Proceed();
  }
}

CallInterceptor::Early CallInterceptor::TakeEarly(
    InterceptorBatchMethods* batch, bool starts,
    InterceptorBatchMethods** start) {
  if (opening_) {
    waiting_.push_back(batch);
    return Early::kHeld;
  }
  if (starts) {
    if (unary_ && MustWaitForReply(batch)) {
      start_ = batch;
      return Early::kHeld;
    }
    *start = batch;
  } else if (start_ != nullptr) {
    // It has the reply object that the start was waiting for.
    waiting_.push_back(batch);
    *start = std::exchange(start_, nullptr);
  } else {
    // Once cancelled nothing may come that would release it.
    const bool held =
        !core_->cancelled() && early().Hold(batch, core_->context_deadline());
    return held ? Early::kHeld : Early::kGoesOn;
  }
  opening_ = true;
  if (early_ != nullptr) {
    for (InterceptorBatchMethods* const held : early_->Take()) {
      waiting_.push_back(held);
    }
  }
  return Early::kStarts;
}

bool CallInterceptor::MustWaitForReply(InterceptorBatchMethods* start) {
  // Without a reply object the request has to tell. One that was serialised
  // already tells nothing, and belongs to a call that asks for its response
  // headers first: no reply object will come before those.
  if (start->GetRecvMessage() != nullptr || early_ != nullptr) return false;
  const void* const request = SentObject(start);
  const MethodTypes& types = core_->method().types();
  return request != nullptr && types.known() &&
         types.KindOfRequest(core_->channel().codec(), request) ==
             MessageKind::kUnknown;
}

EarlyBatches& CallInterceptor::early() {
  if (early_ == nullptr) {
    early_ = std::make_shared<EarlyBatches>(core_->channel().shared_clock());
  }
  return *early_;
}

void CallInterceptor::OpenRoad(InterceptorBatchMethods* start,
                               const void* reply) {
  const std::shared_ptr<Road> road = ChooseRoad(start, reply);
  // What was held is the road's before anything that comes later. (The call
  // cannot end before it has started.)
  for (;;) {
    std::vector<InterceptorBatchMethods*> waiting;
    {
      MutexLock lock(mu_);
      waiting.swap(waiting_);
      if (waiting.empty()) {
        road_ = road;
        break;
      }
    }
    for (InterceptorBatchMethods* const held : waiting) road->OnBatch(held);
  }
  // A cancellation that found no road above.
  if (core_->cancelled()) road->OnCancel();
  road->OnStart(start);
}

std::shared_ptr<Road> CallInterceptor::ChooseRoad(
    InterceptorBatchMethods* start, const void* reply) {
  const bool relayed = CanHandleMessages(start, reply);
  if (!relayed) core_->ForbidRetries(Reason::kUnknownMessageType);
  core_->Begin(start->GetSendInitialMetadata());
  if (std::optional<KeptAnswer> refusal = core_->BeforeAttempt()) {
    return MakeRefusedRoad(*std::move(refusal), /*is_stream=*/!unary_);
  }
  if (!relayed) return MakeObservedRoad(core_);
  if (!unary_) return ChooseStreamRoad(start);
  // A unary call may receive its status in its first batch, with all the rest,
  // or, if the application may look at the response headers first, later.
  const bool whole = start->GetRecvStatus() != nullptr;
  const bool blocking = whole && CalledFromBlockingApi(start);
  if (const UnaryOps ops = OwnAttempt::OpsOf(*core_, start)) {
    // Only for a completion queue the message was serialised by now.
    const bool queue = SentObject(start) == nullptr;
    return MakeTakeoverRoad(core_, ops,
                            blocking ? Caller::kWaits
                            : queue  ? Caller::kPolls
                                     : Caller::kIsCalledBack);
  }
  if (blocking) return MakeInlineRoad(core_);
  return MakeRelayRoad(core_, whole);
}

std::shared_ptr<Road> CallInterceptor::ChooseStreamRoad(
    InterceptorBatchMethods* start) {
  // An attempt that is bounded until it commits needs somebody who notices when
  // it does. And while a corked stream starts on one thread, another one may
  // read already.
  const bool may_block =
      core_->attempt_timeout_at() == absl::InfiniteFuture() && !core_->corked();
  if (may_block && CalledFromBlockingApi(start)) {
    return MakeInlineStreamRoad(core_);
  }
  return MakeStreamRelayRoad(core_, WriteOf(start));
}

bool CallInterceptor::CanHandleMessages(InterceptorBatchMethods* start,
                                        const void* reply) {
  const MethodTypes& types = core_->method().types();
  const MessageCodec codec = core_->channel().codec();
  if (reply != nullptr) {
    return types.KindOfReply(codec, reply) != MessageKind::kUnknown;
  }
  // A stream may show none of its messages before it starts. What it sends is
  // taken serialised, whatever it was; of what it receives into, each read
  // tells.
  const void* const request = unary_ ? SentObject(start) : nullptr;
  if (request == nullptr) {
    return types.known() || codec != MessageCodec::kAuto;
  }
  return types.KindOfRequest(codec, request) != MessageKind::kUnknown;
}

}  // namespace retry_guard::internal
