// What tests of our client behind a proxy start from.

#ifndef RETRY_GUARD_TESTS_INTEROP_PROXY_FIXTURE_H_
#define RETRY_GUARD_TESTS_INTEROP_PROXY_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "retry_guard/testing/matchers.h"
#include "retry_guard/testing/recording_observer.h"
#include "tests/interop/proxy.h"

namespace retry_guard::interop {

// Skipped where the proxy is not installed.
class ProxyTest : public ::testing::TestWithParam<ProxyKind> {
 protected:
  void SetUp() override;

  // With a guard, and connections, of its own.
  std::shared_ptr<grpc::Channel> Channel(const Proxy& proxy,
                                         const std::string& config);

  // What is decided about one call over such a channel.
  std::vector<testing::RecordedDecision> DecisionsAbout(
      const Proxy& proxy, const std::string& config);

  const std::shared_ptr<testing::RecordingObserver> seen_ =
      std::make_shared<testing::RecordingObserver>();
};

#define RETRY_GUARD_BEHIND_EVERY_PROXY(Suite)                   \
  INSTANTIATE_TEST_SUITE_P(                                     \
      Proxies, Suite,                                           \
      ::testing::Values(ProxyKind::kNginx, ProxyKind::kHaproxy, \
                        ProxyKind::kNghttpx),                   \
      [](const auto& info) { return ProxyName(info.param); })

inline auto Saying(const std::string& text) {
  return ::testing::Field("message", &testing::RecordedDecision::message,
                          ::testing::HasSubstr(text));
}

}  // namespace retry_guard::interop

#endif  // RETRY_GUARD_TESTS_INTEROP_PROXY_FIXTURE_H_
