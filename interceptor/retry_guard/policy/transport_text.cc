#include "retry_guard/policy/transport_text.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "retry_guard/policy/absl_view.h"

namespace retry_guard {
namespace {

// Anywhere in the text: what follows it names the last error.
constexpr std::string_view kConnectFailed =
    "failed to connect to all addresses";

// The connection was lost before the stream was put on it; core's own retries
// would send it again unasked. 1.83 adds why in parentheses.
constexpr std::string_view kNotPutOnConnection = "Transport closed";

// "Received ...", "Sent ..."; who says it is told by 1.83 alone.
constexpr std::string_view kTooLarge = "message larger than max (";

constexpr std::string_view kHttp429 = "Received http2 header with status: 429";

// The peer's last-stream-id is below this stream. Not "Socket closed (GOAWAY
// received...": there the stream may have been processed.
constexpr std::string_view kGoaway_1_51 = "GOAWAY received";
constexpr std::string_view kGoawayPrefix_1_83 =
    "Stream removed (GOAWAY received";

// REFUSED_STREAM.
constexpr std::string_view kRst7_1_51 = "Received RST_STREAM with error code 7";
constexpr std::string_view kRst7_1_83 =
    "Stream removed (RST_STREAM (Received RST_STREAM with error code 7))";

bool SaysNeverConnected(std::string_view message) {
  if (absl::StrContains(AbslView(message), AbslView(kConnectFailed))) {
    return true;
  }
  absl::string_view rest = AbslView(message);
  return absl::ConsumePrefix(&rest, AbslView(kNotPutOnConnection)) &&
         (rest.empty() || absl::StartsWith(rest, " ("));
}

bool SaysRefused(std::string_view message) {
  return message == kGoaway_1_51 ||
         absl::StartsWith(AbslView(message), AbslView(kGoawayPrefix_1_83)) ||
         message == kRst7_1_51 || message == kRst7_1_83;
}

}  // namespace

TransportEvent RecognizeTransportEvent(absl::StatusCode code,
                                       std::string_view message,
                                       const TransportFacts& facts) {
  if (code == absl::StatusCode::kResourceExhausted &&
      absl::StrContains(AbslView(message), AbslView(kTooLarge))) {
    return TransportEvent::kTooLarge;
  }
  if (code != absl::StatusCode::kUnavailable) return TransportEvent::kNone;
  if (!facts.reached_a_peer && SaysNeverConnected(message)) {
    return TransportEvent::kNeverConnected;
  }
  if (!facts.got_metadata && SaysRefused(message)) {
    return TransportEvent::kRefused;
  }
  if (absl::StrContains(AbslView(message), AbslView(kHttp429))) {
    return TransportEvent::kRateLimited;
  }
  return TransportEvent::kNone;
}

bool NamesTransportAddress(std::string_view peer) {
  // "unix-abstract:" is how gRPC names Linux's abstract sockets.
  constexpr std::string_view kSchemes[] = {
      "ipv4:", "ipv6:", "unix:", "unix-abstract:", "vsock:"};
  return std::any_of(std::begin(kSchemes), std::end(kSchemes),
                     [peer](std::string_view scheme) {
                       return absl::StartsWith(AbslView(peer),
                                               AbslView(scheme));
                     }) ||
         // Channels that are connected when they are made, and have no address.
         peer == "fd-client" || peer == "inproc";
}

}  // namespace retry_guard
