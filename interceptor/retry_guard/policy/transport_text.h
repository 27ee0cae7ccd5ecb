// What gRPC core says in words only. Some failures can be told apart by nothing
// but the text of the status, which differs between versions; all such text is
// here, checked against gRPC 1.51 and 1.83.

#ifndef RETRY_GUARD_POLICY_TRANSPORT_TEXT_H_
#define RETRY_GUARD_POLICY_TRANSPORT_TEXT_H_

#include <string_view>

#include "absl/status/status.h"
#include "retry_guard/policy/export.h"

namespace retry_guard {

enum class TransportEvent {
  kNone,            // the text says nothing that we know
  kNeverConnected,  // no connection: the call cannot have been processed
  kRefused,         // the peer said that it did not process the stream
  kRateLimited,     // HTTP 429 from a proxy
  kTooLarge,        // a message beyond a limit: so would be the next one
};

// What is known of an attempt besides its status text.
struct TransportFacts {
  bool reached_a_peer = false;  // NamesTransportAddress(peer())
  bool got_metadata = false;    // any response headers or trailing metadata
};

// Classifies a failed attempt. UNAVAILABLE is anything but kTooLarge,
// RESOURCE_EXHAUSTED may be that, and all others are kNone.
// kNeverConnected needs `!reached_a_peer`: a server that forwards the status
// of its own downstream sends the same text. kRefused needs `!got_metadata`.
RETRY_GUARD_EXPORT TransportEvent
RecognizeTransportEvent(absl::StatusCode code, std::string_view message,
                        const TransportFacts& facts);

// Whether ClientContext::peer() names a transport address (`ipv4:`, `ipv6:`,
// `unix:` and the like) or a channel without one, of a file descriptor or to a
// server in this process: then the attempt got as far as a connection. A status
// that was made locally has a peer that names none; gRPC puts the channel's
// target there then, so a target that is spelt as an address looks like one.
RETRY_GUARD_EXPORT bool NamesTransportAddress(std::string_view peer);

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_TRANSPORT_TEXT_H_
