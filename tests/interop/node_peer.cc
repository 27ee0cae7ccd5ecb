#include "tests/interop/node_peer.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace retry_guard::interop {
namespace {

using Fields = std::vector<std::string>;

std::string Script(const std::string& name) {
  return absl::StrCat(RETRY_GUARD_NODE_DIR "/", name);
}

Fields Split(const std::string& line) { return absl::StrSplit(line, '\t'); }

PeerCall ToCall(const Fields& fields) {
  PeerCall call;
  call.method = fields[1];
  for (size_t i = 2; i < fields.size(); ++i) {
    call.metadata.insert(std::pair<std::string, std::string>(
        absl::StrSplit(fields[i], absl::MaxSplits('=', 1))));
  }
  return call;
}

}  // namespace

bool HasNode() {
  return FindProgram("node").has_value() &&
         access(RETRY_GUARD_NODE_DIR "/node_modules", R_OK) == 0;
}

std::vector<std::string> PeerCall::Values(const std::string& key) const {
  std::vector<std::string> values;
  const auto [first, last] = metadata.equal_range(key);
  for (auto it = first; it != last; ++it) values.push_back(it->second);
  return values;
}

NodeServer::NodeServer(std::vector<std::string> command)
    : process_(std::move(command)) {
  const std::optional<std::string> line = process_.AwaitLine("listening\t");
  if (!line.has_value()) {
    std::fputs("the Node.js server does not start\n", stderr);
    std::abort();
  }
  address_ = absl::StrCat("127.0.0.1:", Split(*line)[1]);
}

std::unique_ptr<NodeServer> NodeServer::Grpc() {
  return std::unique_ptr<NodeServer>(
      new NodeServer({"node", Script("server.js"), RETRY_GUARD_ECHO_PROTO}));
}

std::unique_ptr<NodeServer> NodeServer::Http2() {
  return std::unique_ptr<NodeServer>(
      new NodeServer({"node", Script("http2_server.js")}));
}

void NodeServer::Say(const std::string& line) {
  process_.WriteLine(line);
  if (!process_.AwaitLine(absl::StrCat("heard\t", ++said_, "\t")).has_value()) {
    std::fputs("the Node.js server does not listen to its test\n", stderr);
    std::abort();
  }
}

void NodeServer::SetScript(const std::string& script) {
  // One line of it.
  Say(absl::StrReplaceAll(script, {{"\n", " "}}));
  script_began_ = process_.lines().size();
}

std::vector<PeerCall> NodeServer::calls() {
  Say("");
  const std::vector<std::string> lines = process_.lines();
  std::vector<PeerCall> calls;
  for (size_t i = script_began_; i < lines.size(); ++i) {
    if (absl::StartsWith(lines[i], "call\t")) {
      calls.push_back(ToCall(Split(lines[i])));
    }
  }
  return calls;
}

ClientResult CallWithGrpcJs(const std::string& address,
                            const std::string& service_config,
                            const std::string& method) {
  Process client({"node", Script("client.js"), RETRY_GUARD_ECHO_PROTO, address,
                  service_config, method});
  ClientResult result;
  const std::optional<std::string> line =
      client.AwaitLine("result\t", absl::Seconds(30));
  if (!line.has_value()) return result;
  const Fields fields = Split(*line);
  if (!absl::SimpleAtoi(fields[1], &result.code)) result.code = -1;
  result.text = fields[2];
  return result;
}

}  // namespace retry_guard::interop
