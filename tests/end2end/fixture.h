// What end-to-end tests start from: a scripted server, a channel with the
// plugin, an observer that remembers.

#ifndef RETRY_GUARD_TESTS_END2END_FIXTURE_H_
#define RETRY_GUARD_TESTS_END2END_FIXTURE_H_

#include <gmock/gmock.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/client_interceptor.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "retry_guard/channel.h"
#include "retry_guard/testing/manual_clock.h"
#include "retry_guard/testing/matchers.h"
#include "retry_guard/testing/recording_observer.h"
#include "tests/end2end/call_styles.h"
#include "tests/end2end/scripted_server.h"

namespace retry_guard::end2end {

inline constexpr char kUnaryMethod[] = "/retry_guard.testing.EchoService/Unary";

// A config for every method, in the making:
//
//   MakeChannel(Policy(4).Backoff("10s").Guard(R"("layer": "NEVER")"));
//
// A retryPolicy of so many attempts, of UNAVAILABLE, with a backoff of one
// millisecond, and without jitter unless it is given; the rest is at its
// default. What is given as
// `members` is JSON without braces.
class Policy {
 public:
  explicit Policy(int attempts) : attempts_(attempts) {}
  static Policy WithoutRetryPolicy() { return Policy(0); }

  Policy& Backoff(std::string initial) {
    backoff_ = std::move(initial);
    return *this;
  }
  // Instead of UNAVAILABLE: R"("ABORTED", "INTERNAL")".
  Policy& Codes(std::string codes) {
    codes_ = std::move(codes);
    return *this;
  }
  // Into methodConfig's retryGuard.
  Policy& Guard(const std::string& members) { return Add(guard_, members); }
  // Into methodConfig, into the retryPolicy, beside methodConfig.
  Policy& Method(const std::string& members) { return Add(method_, members); }
  Policy& Retry(const std::string& members) { return Add(retry_, members); }
  Policy& Top(const std::string& members) { return Add(top_, members); }
  // Into the top-level retryGuard.
  Policy& Budget(const std::string& members) {
    return Add(channel_, "\"budget\": {" + members + "}");
  }
  Policy& Breaker(const std::string& members) {
    return Add(channel_, "\"breaker\": {" + members + "}");
  }
  Policy& NoBreaker() { return Breaker("\"failureRate\": 0"); }

  // NOLINTNEXTLINE(google-explicit-constructor): that is its use.
  operator std::string() const { return Json(); }
  std::string Json() const;

 private:
  Policy& Add(std::string& to, const std::string& members) {
    to += ", " + members;
    return *this;
  }

  int attempts_;
  std::string backoff_ = "0.001s";
  std::string codes_ = "\"UNAVAILABLE\"";
  std::string guard_, method_, retry_, top_, channel_;
};

using Factories = std::vector<
    std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>;

template <typename... Factory>
Factories ListOf(Factory... factory) {
  Factories list;
  (list.push_back(std::move(factory)), ...);
  return list;
}

// What does not depend on how calls are made.
class EndToEnd : public ::testing::Test {
 protected:
  // Makes `channel_` with the plugin; the members below may be set before.
  void MakeChannel(const std::string& service_config,
                   grpc::ChannelArguments arguments = {});

  // The same without the help of CreateChannel, for interceptors after ours;
  // fills `factory_`.
  void MakeChannelByHand(const std::string& service_config,
                         Factories after_ours = {},
                         grpc::ChannelArguments arguments = {});

  // One without any plugin, to the same server.
  std::shared_ptr<grpc::Channel> BareChannel(
      const grpc::ChannelArguments& arguments = {}) const;

  // A manual clock, to be called before MakeChannel.
  std::shared_ptr<testing::ManualClock> UseManualClock();

  // Of the channel's guard.
  GuardSnapshot Snapshot() const { return options_.guard->Snapshot(); }

  ScriptedServer server_;
  InterceptorOptions options_;
  Factories before_ours_;
  std::string target_;  // "": server_
  std::shared_ptr<grpc::ChannelCredentials> credentials_ =
      grpc::InsecureChannelCredentials();
  const std::shared_ptr<testing::RecordingObserver> seen_ =
      std::make_shared<testing::RecordingObserver>();
  std::shared_ptr<grpc::Channel> channel_;
  InterceptorFactory* factory_ = nullptr;  // lives as long as channel_

 private:
  InterceptorOptions Options(const std::string& service_config);
  std::string Target() const;
};

// For unary calls, in every style.
class EndToEndTest : public EndToEnd,
                     public ::testing::WithParamInterface<Style> {
 protected:
  CallResult CallUnary(grpc::ClientContext* context,
                       const std::string& text = "hi",
                       const std::string& method = "Unary") {
    return Call(GetParam(), channel_, context, text, method);
  }
  CallResult CallUnary() {
    grpc::ClientContext context;
    return CallUnary(&context);
  }
  CallResult CallMethod(const std::string& method) {
    grpc::ClientContext context;
    return CallUnary(&context, "hi", method);
  }
  CallResult CallText(const std::string& text) {
    grpc::ClientContext context;
    return CallUnary(&context, text);
  }
  StartedCall StartUnary(grpc::ClientContext* context,
                         const std::string& text = "hi",
                         const std::string& method = "Unary") {
    return StartedCall(GetParam(), channel_, context, text, method);
  }
};

inline std::string StyleParamName(const ::testing::TestParamInfo<Style>& info) {
  return StyleName(info.param);
}

// For a test suite that runs in every style.
#define RETRY_GUARD_IN_EVERY_STYLE(Suite)                                   \
  INSTANTIATE_TEST_SUITE_P(Styles, Suite, ::testing::ValuesIn(AllStyles()), \
                           StyleParamName)

}  // namespace retry_guard::end2end

#endif  // RETRY_GUARD_TESTS_END2END_FIXTURE_H_
