// What end-to-end tests start from: a scripted server, a channel with the
// plugin, an observer that remembers.

#ifndef RETRY_GUARD_TESTS_END2END_FIXTURE_H_
#define RETRY_GUARD_TESTS_END2END_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "retry_guard/channel.h"
#include "retry_guard/testing/manual_clock.h"
#include "retry_guard/testing/matchers.h"
#include "retry_guard/testing/recording_observer.h"
#include "tests/end2end/call_styles.h"
#include "tests/end2end/scripted_server.h"

namespace retry_guard::end2end {

inline constexpr char kUnaryMethod[] = "/retry_guard.testing.EchoService/Unary";

// A config for every method: a retryPolicy of `attempts`, one-millisecond
// backoff without jitter; `more` is put beside it in methodConfig, `top` beside
// methodConfig.
std::string Policy(int attempts, const std::string& more = "",
                   const std::string& top = "");

class EndToEndTest : public ::testing::TestWithParam<Style> {
 protected:
  // Makes the channel; `options_` may be changed before.
  void MakeChannel(const std::string& service_config,
                   grpc::ChannelArguments arguments = {});

  // A manual clock, to be called before MakeChannel.
  std::shared_ptr<testing::ManualClock> UseManualClock();

  // Of the channel's guard.
  GuardSnapshot Snapshot() const { return options_.guard->Snapshot(); }

  CallResult CallUnary(grpc::ClientContext* context,
                       const std::string& text = "hi",
                       const std::string& method = "Unary") {
    return Call(GetParam(), channel_, context, text, method);
  }
  CallResult CallUnary() {
    grpc::ClientContext context;
    return CallUnary(&context);
  }

  ScriptedServer server_;
  InterceptorOptions options_;
  const std::shared_ptr<testing::RecordingObserver> seen_ =
      std::make_shared<testing::RecordingObserver>();
  std::shared_ptr<grpc::Channel> channel_;
};

inline std::string StyleParamName(const ::testing::TestParamInfo<Style>& info) {
  return StyleName(info.param);
}

}  // namespace retry_guard::end2end

#endif  // RETRY_GUARD_TESTS_END2END_FIXTURE_H_
