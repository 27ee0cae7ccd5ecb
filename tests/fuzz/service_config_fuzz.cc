// Any bytes at all: a service config is refused with a message or accepted, and
// what was accepted means the same once it is respelt for core.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "retry_guard/config/service_config.h"

namespace {

using retry_guard::ParseServiceConfig;
using retry_guard::ServiceConfig;

void Require(bool promise) {
  if (!promise) std::abort();
}

void RequireSame(const ServiceConfig& a, const ServiceConfig& b) {
  Require(a.names() == b.names());
  for (const std::string& name : a.names()) {
    Require(a.ForMethod(name) == b.ForMethod(name));
  }
  Require(a.guard() == b.guard());
  Require(a.layer_name() == b.layer_name());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto config = ParseServiceConfig(json);
  if (!config.ok()) {
    Require(config.status().code() == absl::StatusCode::kInvalidArgument);
    Require(!config.status().message().empty());
    return 0;
  }
  const auto again = ParseServiceConfig((*config)->core_json());
  Require(again.ok());
  RequireSame(**config, **again);
  Require((*again)->core_json() == (*config)->core_json());
  return 0;
}
