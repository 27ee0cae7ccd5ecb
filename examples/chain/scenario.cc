#include "scenario.h"

namespace chain {

std::string_view ModeName(Mode mode) {
  switch (mode) {
    case Mode::kNaive:
      return "naive";
    case Mode::kGrpcBuiltin:
      return "grpc_builtin";
    case Mode::kRetryGuard:
      return "retry_guard";
    case Mode::kRetryGuardDefaults:
      return "retry_guard_defaults";
  }
  return "";
}

std::optional<Mode> ParseMode(std::string_view name) {
  for (const Mode mode : kAllModes) {
    if (name == ModeName(mode)) return mode;
  }
  return std::nullopt;
}

}  // namespace chain
