// The one chain that every mode goes through, and the modes.

#ifndef EXAMPLES_CHAIN_SCENARIO_H_
#define EXAMPLES_CHAIN_SCENARIO_H_

#include <optional>
#include <string_view>

#include "absl/time/time.h"

namespace chain {

// How a layer calls the one below.
enum class Mode {
  kNaive,               // a hand-written loop round a plain stub
  kGrpcBuiltin,         // gRPC's own retryPolicy
  kRetryGuard,          // the layer rule alone: no budget, no breaker
  kRetryGuardDefaults,  // budget and breaker as shipped
};

inline constexpr Mode kAllModes[] = {
    Mode::kNaive,
    Mode::kGrpcBuiltin,
    Mode::kRetryGuard,
    Mode::kRetryGuardDefaults,
};

constexpr bool UsesRetryGuard(Mode mode) {
  return mode == Mode::kRetryGuard || mode == Mode::kRetryGuardDefaults;
}

std::string_view ModeName(Mode mode);
std::optional<Mode> ParseMode(std::string_view name);

// Each client of the chain makes so many attempts, unless something stops it.
inline constexpr int kAttempts = 3;

// Between them: as good as nothing, so that what stops the retries of a layer
// is never the deadline. (Not shorter: in gRPC 1.83.0 a backoff of core's that
// is rounded to 0 ms never ends.)
inline constexpr absl::Duration kFirstBackoff = absl::Milliseconds(3);
inline constexpr absl::Duration kLongestBackoff = absl::Milliseconds(6);

// Of a user's request. Not a round number: on the wire gRPC rounds up what is
// left, and more so the longer it is.
inline constexpr absl::Duration kUserTimeout = absl::Milliseconds(15001);

// Who sends the users' requests into the chain; the outermost that retries.
inline constexpr std::string_view kFrontend = "frontend";

// The services, from the outermost to the one at the bottom.
inline constexpr std::string_view kLayers[] = {
    "gateway", "orders", "inventory", "warehouse", "shelf",
};
inline constexpr int kMostLayers = 5;

}  // namespace chain

#endif  // EXAMPLES_CHAIN_SCENARIO_H_
