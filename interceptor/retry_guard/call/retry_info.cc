#include "retry_guard/call/retry_info.h"

#include <algorithm>
#include <cstdint>

#include "retry_guard/rpc_status.pb.h"

namespace retry_guard::internal {
namespace {

constexpr int64_t kMostSeconds = 315576000000;
constexpr char kTypeUrl[] = "type.googleapis.com/google.rpc.RetryInfo";

wire::RetryInfo RetryInfoOf(absl::Duration delay) {
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
  return info;
}

void Erase(const std::string& type_url,
           google::protobuf::RepeatedPtrField<google::protobuf::Any>* all) {
  all->erase(std::remove_if(all->begin(), all->end(),
                            [&type_url](const google::protobuf::Any& each) {
                              return each.type_url() == type_url;
                            }),
             all->end());
}

}  // namespace

grpc::Status WithRetryInfo(grpc::StatusCode code, const std::string& message,
                           absl::Duration delay) {
  return WithRetryInfo(grpc::Status(code, message), delay);
}

grpc::Status WithRetryInfo(const grpc::Status& status, absl::Duration delay) {
  wire::RpcStatus details;
  if (!details.ParseFromString(status.error_details())) return status;
  details.set_code(status.error_code());
  details.set_message(status.error_message());
  Erase(kTypeUrl, details.mutable_details());
  google::protobuf::Any* const any = details.add_details();
  any->set_type_url(kTypeUrl);
  any->set_value(RetryInfoOf(delay).SerializeAsString());
  return {status.error_code(), status.error_message(),
          details.SerializeAsString()};
}

}  // namespace retry_guard::internal
