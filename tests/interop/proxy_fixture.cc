#include "tests/interop/proxy_fixture.h"

#include <utility>

#include "retry_guard/channel.h"
#include "tests/end2end/call_styles.h"
#include "tests/interop/process.h"

namespace retry_guard::interop {
namespace {

std::string Program(ProxyKind kind) {
  switch (kind) {
    case ProxyKind::kNginx:
      return "nginx";
    case ProxyKind::kHaproxy:
      return "haproxy";
    case ProxyKind::kNghttpx:
      return "nghttpx";
  }
  return "?";
}

}  // namespace

void ProxyTest::SetUp() {
  if (!FindProgram(Program(GetParam())).has_value()) {
    GTEST_SKIP() << Program(GetParam())
                 << " is missing; ./tests/run --interop installs it";
  }
}

std::shared_ptr<grpc::Channel> ProxyTest::Channel(const Proxy& proxy,
                                                  const std::string& config) {
  InterceptorOptions options;
  options.service_config_json = config;
  options.observers = {seen_};
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A proxy that was away for a moment is looked for at once.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  auto channel =
      CreateChannel(proxy.address(), grpc::InsecureChannelCredentials(),
                    std::move(options), std::move(arguments));
  EXPECT_TRUE(channel.ok()) << channel.status();
  return *channel;
}

std::vector<testing::RecordedDecision> ProxyTest::DecisionsAbout(
    const Proxy& proxy, const std::string& config) {
  seen_->Clear();
  grpc::ClientContext context;
  end2end::Call(end2end::Style::kSync, Channel(proxy, config), &context);
  return seen_->decisions();
}

}  // namespace retry_guard::interop
