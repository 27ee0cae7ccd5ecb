#include "retry_guard/call/retry_info.h"

#include <algorithm>
#include <cstdint>

#include "retry_guard/rpc_status.pb.h"

namespace retry_guard::internal {
namespace {

constexpr int64_t kMostSeconds = 315576000000;

}  // namespace

grpc::Status WithRetryInfo(grpc::StatusCode code, const std::string& message,
                           absl::Duration delay) {
  // What a protobuf Duration can hold; rounded up, or who obeys comes early.
  const absl::Duration wait =
      std::clamp(absl::Ceil(delay, absl::Nanoseconds(1)), absl::ZeroDuration(),
                 absl::Seconds(kMostSeconds) + absl::Nanoseconds(999999999));
  wire::RetryInfo info;
  absl::Duration rest;
  info.mutable_retry_delay()->set_seconds(
      absl::IDivDuration(wait, absl::Seconds(1), &rest));
  info.mutable_retry_delay()->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));

  wire::RpcStatus details;
  details.set_code(code);
  details.set_message(message);
  google::protobuf::Any* const any = details.add_details();
  any->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  any->set_value(info.SerializeAsString());
  return {code, message, details.SerializeAsString()};
}

}  // namespace retry_guard::internal
