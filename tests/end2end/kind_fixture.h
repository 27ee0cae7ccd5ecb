// For tests of calls of every shape, in every style.

#ifndef RETRY_GUARD_TESTS_END2END_KIND_FIXTURE_H_
#define RETRY_GUARD_TESTS_END2END_KIND_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/end2end/fixture.h"
#include "tests/end2end/play_server.h"
#include "tests/end2end/stream_styles.h"

namespace retry_guard::end2end {

// A whole call on a thread of its own. The context is the caller's.
class StartedWhole {
 public:
  StartedWhole(const Kind& kind, std::shared_ptr<grpc::Channel> channel,
               grpc::ClientContext* context, const std::string& text = "hi")
      : thread_([=, channel = std::move(channel)]() mutable {
          result_ = CallWhole(kind, channel, context, text);
        }) {}
  ~StartedWhole() { Await(); }

  const CallResult& Await() {
    if (thread_.joinable()) thread_.join();
    return result_;
  }

 private:
  CallResult result_;
  std::thread thread_;
};

class KindTest : public EndToEnd, public ::testing::WithParamInterface<Kind> {
 protected:
  KindTest() { Serve(grpc::InsecureServerCredentials()); }

  void Serve(const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    play_ =
        std::make_unique<PlayServer>(std::vector<Play>{Echo()}, credentials);
    target_ = play_->address();
  }

  // A whole call of this kind.
  CallResult Call(const std::shared_ptr<grpc::Channel>& channel,
                  grpc::ClientContext* context,
                  const std::string& text = "hi") const {
    return CallWhole(GetParam(), channel, context, text);
  }
  CallResult Call(grpc::ClientContext* context,
                  const std::string& text = "hi") const {
    return Call(channel_, context, text);
  }
  CallResult Call() const {
    grpc::ClientContext context;
    return Call(&context);
  }
  StartedWhole Start(grpc::ClientContext* context) const {
    return StartedWhole(GetParam(), channel_, context);
  }

  // Answers a whole call of any shape: with its own text, once.
  static Play Good() { return Play().Echo(); }

  std::unique_ptr<PlayServer> play_;
};

inline std::string KindParamName(const ::testing::TestParamInfo<Kind>& info) {
  return KindName(info.param);
}

// For a test suite that runs with every kind of stream, or with every shape in
// every style.
#define RETRY_GUARD_WITH_EVERY_STREAM(Suite)                                 \
  INSTANTIATE_TEST_SUITE_P(Kinds, Suite, ::testing::ValuesIn(StreamKinds()), \
                           KindParamName)
#define RETRY_GUARD_WITH_EVERY_KIND(Suite)                                \
  INSTANTIATE_TEST_SUITE_P(Kinds, Suite, ::testing::ValuesIn(AllKinds()), \
                           KindParamName)

}  // namespace retry_guard::end2end

#endif  // RETRY_GUARD_TESTS_END2END_KIND_FIXTURE_H_
