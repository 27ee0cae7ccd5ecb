// The peers that run on Node.js: see the scripts in tests/interop/node.

#ifndef RETRY_GUARD_TESTS_INTEROP_NODE_PEER_H_
#define RETRY_GUARD_TESTS_INTEROP_NODE_PEER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/interop/process.h"

namespace retry_guard::interop {

// Whether Node.js and the packages of tests/interop/node are there.
bool HasNode();

// What a peer saw of one call.
struct PeerCall {
  std::string method;
  std::multimap<std::string, std::string> metadata;

  // Every value of `key`, in their order.
  std::vector<std::string> Values(const std::string& key) const;
};

// A server that answers by a script.
class NodeServer {
 public:
  // grpc-js: node/server.js.
  static std::unique_ptr<NodeServer> Grpc();
  // Node's own HTTP/2: node/http2_server.js.
  static std::unique_ptr<NodeServer> Http2();

  const std::string& address() const { return address_; }

  // From now on, answers call number n (from 0) with entry n of this JSON list,
  // and later ones with its last entry.
  void SetScript(const std::string& script);

  // All calls since then.
  std::vector<PeerCall> calls();

 private:
  explicit NodeServer(std::vector<std::string> command);

  // Returns when the server has read `line`; all that it had to tell before
  // that is in process_.lines() then.
  void Say(const std::string& line);

  Process process_;
  std::string address_;
  int said_ = 0;
  size_t script_began_ = 0;  // a line of process_
};

struct ClientResult {
  int code = -1;
  std::string text;  // of the reply, or of the status
};

// One call of a stock grpc-js client (node/client.js), which has this service
// config and no plugin.
ClientResult CallWithGrpcJs(const std::string& address,
                            const std::string& service_config,
                            const std::string& method);

}  // namespace retry_guard::interop

#endif  // RETRY_GUARD_TESTS_INTEROP_NODE_PEER_H_
