#include "tests/conformance/hints.h"

#include "retry_guard/rpc_status.pb.h"

namespace retry_guard::conformance {
namespace {

std::string Details(const std::string& type, const std::string& value) {
  wire::RpcStatus status;
  status.set_code(8);
  google::protobuf::Any* const any = status.add_details();
  any->set_type_url("type.googleapis.com/google.rpc." + type);
  any->set_value(value);
  return status.SerializeAsString();
}

}  // namespace

std::string DetailsWithRetryInfo(int64_t seconds, int32_t nanos) {
  wire::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(seconds);
  info.mutable_retry_delay()->set_nanos(nanos);
  return Details("RetryInfo", info.SerializeAsString());
}

std::string DetailsWithRetryInfo(absl::Duration delay) {
  absl::Duration rest;
  const int64_t seconds = absl::IDivDuration(delay, absl::Seconds(1), &rest);
  return DetailsWithRetryInfo(
      seconds, static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
}

std::string DetailsWithEmptyRetryInfo() { return Details("RetryInfo", ""); }

std::string DetailsWithErrorInfo() { return Details("ErrorInfo", ""); }

ServerHint ReadPushback(const std::vector<std::string>& values) {
  const std::vector<std::string_view> views(values.begin(), values.end());
  HintSources sources;
  sources.pushback_ms = views;
  return ReadServerHint(sources, absl::UnixEpoch());
}

ServerHint ReadDetails(const std::string& details) {
  HintSources sources;
  sources.status_details = details;
  return ReadServerHint(sources, absl::UnixEpoch());
}

ServerHint ReadRetryAfter(std::string_view value, absl::Time wall_now) {
  HintSources sources;
  sources.retry_after = value;
  return ReadServerHint(sources, wall_now);
}

}  // namespace retry_guard::conformance
