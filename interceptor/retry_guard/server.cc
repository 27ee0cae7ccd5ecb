#include "retry_guard/server.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "retry_guard/call/core_time.h"
#include "retry_guard/call/grpc_access.h"
#include "retry_guard/call/inbound_call.h"
#include "retry_guard/call/metadata.h"
#include "retry_guard/call/retry_info.h"
#include "retry_guard/call/server_interceptor.h"

namespace retry_guard {
namespace {

using internal::GrpcAccess;

class ServerFactory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit ServerFactory(Inbound trust) : trust_(trust) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new internal::ServerInterceptor(info, trust_);
  }

 private:
  const Inbound trust_;
};

std::string PushbackMs(absl::Duration delay) {
  const absl::Duration wait =
      std::clamp(delay, absl::ZeroDuration(),
                 absl::Milliseconds(std::numeric_limits<int32_t>::max()));
  return absl::StrCat(
      absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
}

void Mark(grpc::ClientContext* outbound, const RetryMarker& marker) {
  internal::SendMetadata& metadata = *GrpcAccess::SendMetadata(outbound);
  internal::SetOne(metadata, internal::kRetryOwner, marker.owner);
  metadata.erase(internal::kRetryAttempt);
  if (marker.attempt > 0) {
    metadata.emplace(internal::kRetryAttempt, absl::StrCat(marker.attempt));
  }
  metadata.erase(internal::kRetryRemainingMs);
  const absl::Duration remaining =
      internal::TimeUntil(outbound->raw_deadline());
  if (remaining != absl::InfiniteDuration()) {
    metadata.emplace(internal::kRetryRemainingMs,
                     internal::RemainingMs(remaining));
  }
}

}  // namespace

void ContinueFrom(const grpc::ServerContextBase& inbound,
                  grpc::ClientContext* outbound, Inbound trust) {
  GrpcAccess::SetParent(inbound, outbound);

  absl::Duration remaining =
      std::min(internal::TimeUntil(outbound->raw_deadline()),
               internal::TimeUntil(inbound.raw_deadline()));
  std::optional<RetryMarker> marker;
  // The server interceptor, if there is one, knows when the call came in, and
  // whom to trust.
  const auto known = internal::InboundCalls::OfThisProcess().Find(
      GrpcAccess::Parent(*outbound));
  if (known != nullptr) {
    if (trust == Inbound::kUntrusted) known->DropMarker();
    // Once: another call of the same handler's may drop it.
    if (const RetryMarker* const inbound_marker = known->marker()) {
      marker = *inbound_marker;
    }
    remaining = std::min(remaining, internal::TimeUntil(known->deadline()));
  } else if (trust == Inbound::kTrusted) {
    marker = ReadInboundMarker(inbound);
    if (marker.has_value()) remaining = std::min(remaining, marker->remaining);
  }
  if (remaining != absl::InfiniteDuration()) {
    outbound->set_deadline(internal::CoreTimeAfter(remaining));
  }
  if (marker.has_value()) Mark(outbound, *marker);
}

void MarkOwned(grpc::ClientContext* outbound, std::string_view owner) {
  MarkerSources sources;
  sources.owner = absl::MakeConstSpan(&owner, 1);
  // As a layer below would read it, so that what is sent can be read.
  if (const std::optional<RetryMarker> marker = ReadMarker(sources)) {
    Mark(outbound, *marker);
  }
}

std::optional<RetryMarker> ReadInboundMarker(
    const grpc::ServerContextBase& inbound) {
  return internal::ReadMarkerFrom(inbound.client_metadata());
}

// The message is taken by value for a gRPC whose Status can take it over.
grpc::Status RetryLater(grpc::ServerContextBase* inbound, absl::Duration delay,
                        // NOLINTNEXTLINE(performance-unnecessary-value-param)
                        std::string message) {
  return RetryLater(inbound, delay,
                    grpc::Status(grpc::StatusCode::UNAVAILABLE, message));
}

grpc::Status RetryLater(grpc::ServerContextBase* inbound, absl::Duration delay,
                        grpc::Status status) {
  if (status.ok()) return status;
  inbound->AddTrailingMetadata(internal::kPushbackMs, PushbackMs(delay));
  return internal::WithRetryInfo(status, delay);
}

grpc::Status DoNotRetry(grpc::ServerContextBase* inbound, grpc::Status status) {
  if (!status.ok()) inbound->AddTrailingMetadata(internal::kPushbackMs, "-1");
  return status;
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
CreateServerInterceptorFactory(Inbound trust) {
  return std::make_unique<ServerFactory>(trust);
}

}  // namespace retry_guard
