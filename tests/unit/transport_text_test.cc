#include "retry_guard/policy/transport_text.h"

#include <string>

#include "gtest/gtest.h"

namespace retry_guard {
namespace {

constexpr auto kUnavailable = absl::StatusCode::kUnavailable;
constexpr TransportFacts kNothingCame{/*reached_a_peer=*/false,
                                      /*got_metadata=*/false};
constexpr TransportFacts kConnected{/*reached_a_peer=*/true,
                                    /*got_metadata=*/false};
constexpr TransportFacts kAnswered{/*reached_a_peer=*/true,
                                   /*got_metadata=*/true};

// What gRPC 1.51 and 1.83 were seen to say, with UNAVAILABLE.
struct Seen {
  const char* version;
  const char* text;
  TransportFacts facts;
  TransportEvent event;
};

const Seen kSeen[] = {
    // Connection refused.
    {"both",
     "failed to connect to all addresses; last error: UNKNOWN: "
     "ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused",
     kNothingCame, TransportEvent::kNeverConnected},
    {"1.51",
     "failed to connect to all addresses; last error: UNAVAILABLE: "
     "ipv4:127.0.0.1:1: recvmsg:Connection reset by peer",
     kNothingCame, TransportEvent::kNeverConnected},
    {"1.51",
     "failed to connect to all addresses; last error: INTERNAL: "
     "ipv4:127.0.0.1:1: Trying to connect an http1.x server",
     kNothingCame, TransportEvent::kNeverConnected},
    // A load-balancing policy may put a prefix before it.
    {"both", "weighted target: failed to connect to all addresses",
     kNothingCame, TransportEvent::kNeverConnected},
    // A server that forwards its own downstream's failure.
    {"both",
     "failed to connect to all addresses; last error: UNKNOWN: "
     "ipv4:10.0.0.7:1: Failed to connect to remote host: Connection refused",
     kConnected, TransportEvent::kNone},

    // The connection was lost before the stream was put on it.
    {"1.51", "Transport closed", kNothingCame, TransportEvent::kNeverConnected},
    {"1.83", "Transport closed (Socket closed)", kNothingCame,
     TransportEvent::kNeverConnected},
    {"both", "Transport closed", kConnected, TransportEvent::kNone},
    {"both", "Transport closed by its owner", kNothingCame,
     TransportEvent::kNone},

    // GOAWAY whose last stream id lies before this stream.
    {"1.51", "GOAWAY received", kConnected, TransportEvent::kRefused},
    {"1.83", "Stream removed (GOAWAY received; Error code: 0; Debug Text: )",
     kConnected, TransportEvent::kRefused},
    // GOAWAY that covers this stream, then the connection closes.
    {"1.51", "Socket closed", kConnected, TransportEvent::kNone},
    {"1.83",
     "Stream removed (Socket closed (GOAWAY received; Error code: 0; Debug "
     "Text: ))",
     kConnected, TransportEvent::kNone},
    {"1.83", "Socket closed (GOAWAY received; Error code: 0; Debug Text: )",
     kConnected, TransportEvent::kNone},

    // RST_STREAM REFUSED_STREAM.
    {"1.51", "Received RST_STREAM with error code 7", kConnected,
     TransportEvent::kRefused},
    {"1.83",
     "Stream removed (RST_STREAM (Received RST_STREAM with error code 7))",
     kConnected, TransportEvent::kRefused},
    // The stream had begun: it was not refused.
    {"1.51", "Received RST_STREAM with error code 7", kAnswered,
     TransportEvent::kNone},
    {"1.51", "GOAWAY received", kAnswered, TransportEvent::kNone},
    // Other errors.
    {"1.51", "Received RST_STREAM with error code 77", kConnected,
     TransportEvent::kNone},
    {"both", "my backend said: GOAWAY received", kConnected,
     TransportEvent::kNone},

    // Plain HTTP errors of a proxy.
    {"both", "Received http2 header with status: 429", kConnected,
     TransportEvent::kRateLimited},
    {"both", "Received http2 header with status: 503", kConnected,
     TransportEvent::kNone},
    {"both", "Received http2 header with status: 502", kConnected,
     TransportEvent::kNone},

    // The connection broke under the call: it may have been processed.
    {"1.51", "recvmsg:Connection reset by peer", kConnected,
     TransportEvent::kNone},
    {"1.83", "Stream removed (recvmsg:Connection reset by peer (104))",
     kConnected, TransportEvent::kNone},
    {"1.83", "Stream removed (Socket closed)", kConnected,
     TransportEvent::kNone},
    {"1.51",
     "DNS resolution failed for nowhere:1: C-ares status is not "
     "ARES_SUCCESS",
     kNothingCame, TransportEvent::kNone},
    {"both", "", kNothingCame, TransportEvent::kNone},
};

TEST(TransportTextTest, KnowsTheTextsOfBothVersions) {
  for (const Seen& seen : kSeen) {
    EXPECT_EQ(RecognizeTransportEvent(kUnavailable, seen.text, seen.facts),
              seen.event)
        << seen.version << ": " << seen.text;
  }
}

TEST(TransportTextTest, OtherCodesMeanNoneOfThis) {
  for (int code = 0; code <= 16; ++code) {
    const auto status = static_cast<absl::StatusCode>(code);
    if (status == kUnavailable) continue;
    for (const Seen& seen : kSeen) {
      EXPECT_EQ(RecognizeTransportEvent(status, seen.text, seen.facts),
                TransportEvent::kNone);
    }
  }
}

TEST(TransportTextTest, AMessageBeyondALimitIsKnownByItsCodeAndItsText) {
  constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;
  for (const char* text :
       {"Received message larger than max (118 vs. 10)",
        "CLIENT: Received message larger than max (118 vs. 10)",
        "Sent message larger than max (118 vs. 10)"}) {
    for (const TransportFacts& facts : {kNothingCame, kConnected, kAnswered}) {
      EXPECT_EQ(RecognizeTransportEvent(kExhausted, text, facts),
                TransportEvent::kTooLarge)
          << text;
      EXPECT_EQ(RecognizeTransportEvent(kUnavailable, text, facts),
                TransportEvent::kNone);
    }
  }
  EXPECT_EQ(RecognizeTransportEvent(kExhausted, "quota exceeded", kAnswered),
            TransportEvent::kNone);
}

TEST(TransportTextTest, TransportAddressesAreToldFromNames) {
  for (std::string_view peer : {"ipv4:127.0.0.1:50051", "ipv6:%5B::1%5D:50051",
                                "unix:/tmp/socket", "unix-abstract:name"}) {
    EXPECT_TRUE(NamesTransportAddress(peer)) << peer;
  }
  for (std::string_view peer : {"fd-client", "inproc"}) {
    EXPECT_TRUE(NamesTransportAddress(peer)) << peer;
  }
  for (std::string_view peer :
       {"", "unknown", "inproc.example:1", "localhost:50051", "dns:///svc:443",
        "ipv4", "my ipv4:1.2.3.4"}) {
    EXPECT_FALSE(NamesTransportAddress(peer)) << peer;
  }
}

}  // namespace
}  // namespace retry_guard
