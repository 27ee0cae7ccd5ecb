// What tests of our client against a peer on Node.js start from.

#ifndef RETRY_GUARD_TESTS_INTEROP_NODE_FIXTURE_H_
#define RETRY_GUARD_TESTS_INTEROP_NODE_FIXTURE_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/end2end/fixture.h"
#include "tests/interop/node_peer.h"

// In SetUp or at the start of a test.
#define RETRY_GUARD_SKIP_WITHOUT_NODE()         \
  if (!HasNode())                               \
  GTEST_SKIP() << "Node.js or the packages of " \
                  "tests/interop/node are missing; ./tests/run installs them"

namespace retry_guard::interop {

// One peer for all tests of a suite: Node.js takes longer to start than they
// take to run. `make_peer` is NodeServer::Grpc or NodeServer::Http2.
template <std::unique_ptr<NodeServer> (*make_peer)()>
class NodePeerTest : public end2end::EndToEndTest {
 public:
  static void SetUpTestSuite() {
    if (HasNode()) peer_ = make_peer();
  }
  static void TearDownTestSuite() { peer_.reset(); }

 protected:
  void SetUp() override { RETRY_GUARD_SKIP_WITHOUT_NODE(); }

  // Makes a channel with this config to the peer, which has this script.
  void Connect(const std::string& script, const std::string& config) {
    peer_->SetScript(script);
    target_ = peer_->address();
    // On connections of its own: what happened to those of others is not its
    // concern.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    MakeChannel(config, arguments);
  }

  // All calls that have reached the peer since then.
  static std::vector<PeerCall> Calls() { return peer_->calls(); }

 private:
  inline static std::unique_ptr<NodeServer> peer_;
};

// One style of each road that a call can take: inline, observed, relayed.
inline std::vector<end2end::Style> RoadStyles() {
  return {end2end::Style::kSync, end2end::Style::kQueue,
          end2end::Style::kReactor};
}

#define RETRY_GUARD_ON_EVERY_ROAD(Suite)                                    \
  INSTANTIATE_TEST_SUITE_P(Roads, Suite, ::testing::ValuesIn(RoadStyles()), \
                           end2end::StyleParamName)

}  // namespace retry_guard::interop

#endif  // RETRY_GUARD_TESTS_INTEROP_NODE_FIXTURE_H_
