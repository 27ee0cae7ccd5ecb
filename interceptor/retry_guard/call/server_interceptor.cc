#include "retry_guard/call/server_interceptor.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "retry_guard/policy/status_codes.h"

namespace retry_guard::internal {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

std::vector<std::string_view> ValuesOf(const ReceivedMetadata& metadata,
                                       const char* key) {
  std::vector<std::string_view> values;
  const auto [first, last] = metadata.equal_range(key);
  for (auto it = first; it != last; ++it) values.push_back(View(it->second));
  return values;
}

}  // namespace

std::optional<RetryMarker> ReadMarkerFrom(const ReceivedMetadata& metadata) {
  if (metadata.find(kRetryOwner) == metadata.end()) return std::nullopt;
  const auto owner = ValuesOf(metadata, kRetryOwner);
  const auto attempt = ValuesOf(metadata, kRetryAttempt);
  const auto remaining = ValuesOf(metadata, kRetryRemainingMs);
  MarkerSources sources;
  sources.owner = owner;
  sources.attempt = attempt;
  sources.remaining_ms = remaining;
  return ReadMarker(sources);
}

ServerInterceptor::~ServerInterceptor() {
  if (inbound_ == nullptr) return;
  InboundCalls::OfThisProcess().Remove(call_, inbound_.get());
}

void ServerInterceptor::Intercept(InterceptorBatchMethods* batch) {
  if (inbound_ == nullptr &&
      batch->QueryInterceptionHookPoint(
          InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
    Register(*batch->GetRecvInitialMetadata());
  }
  if (inbound_ != nullptr && batch->QueryInterceptionHookPoint(
                                 InterceptionHookPoints::PRE_SEND_STATUS)) {
    AddPushback(batch);
  }
  batch->Proceed();
}

void ServerInterceptor::Register(const ReceivedMetadata& metadata) {
  call_ = context_->c_call();
  if (call_ == nullptr) return;
  std::optional<RetryMarker> marker;
  if (trust_ == Inbound::kTrusted) marker = ReadMarkerFrom(metadata);
  inbound_ = std::make_shared<InboundCall>(std::move(marker),
                                           context_->raw_deadline());
  InboundCalls::OfThisProcess().Add(call_, inbound_);
}

void ServerInterceptor::AddPushback(InterceptorBatchMethods* batch) {
  const grpc::Status status = batch->GetSendStatus();
  if (status.ok()) return;
  SendMetadata* const trailing = batch->GetSendTrailingMetadata();
  if (trailing->find(kPushbackMs) != trailing->end()) return;
  const std::optional<int32_t> pushback =
      inbound_->PushbackFor(SanitizeStatusCode(status.error_code()));
  if (pushback.has_value()) {
    trailing->emplace(kPushbackMs, absl::StrCat(*pushback));
  }
}

}  // namespace retry_guard::internal
