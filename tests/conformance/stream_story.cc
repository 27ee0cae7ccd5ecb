#include "tests/conformance/stream_story.h"

#include <grpcpp/support/client_interceptor.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "retry_guard/channel.h"
#include "retry_guard/guard.h"
#include "retry_guard/testing/manual_clock.h"
#include "retry_guard/testing/recording_observer.h"
#include "tests/end2end/interceptors.h"
#include "tests/end2end/play_server.h"
#include "tests/end2end/stream_styles.h"

namespace retry_guard::conformance {
namespace {

using end2end::Kind;
using end2end::Play;
using end2end::PlayedCall;
using end2end::PlayServer;
using end2end::Shape;
using end2end::Style;

struct StreamSeen {
  grpc::Status status;
  std::vector<bool> written;
  int delivered = 0;  // messages
  std::vector<testing::RecordedDecision> decisions;
  std::vector<PlayedCall> attempts;
};

// Answers every attempt after ours, with this status; takes no message.
class FailLocally final : public grpc::experimental::Interceptor {
 public:
  explicit FailLocally(grpc::StatusCode code) : code_(code) {}

  void Intercept(
      grpc::experimental::InterceptorBatchMethods* methods) override {
    using Hook = grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Hook::PRE_SEND_MESSAGE)) {
      methods->FailHijackedSendMessage();
    }
    if (methods->QueryInterceptionHookPoint(Hook::PRE_SEND_INITIAL_METADATA)) {
      methods->Hijack();
      return;
    }
    if (methods->QueryInterceptionHookPoint(Hook::PRE_RECV_MESSAGE)) {
      methods->FailHijackedRecvMessage();
    }
    if (methods->QueryInterceptionHookPoint(Hook::PRE_RECV_STATUS)) {
      *methods->GetRecvStatus() = grpc::Status(code_, "made locally");
    }
    methods->Proceed();
  }

 private:
  const grpc::StatusCode code_;
};

std::string MessageOf(const std::string& name) {
  return name == "large" ? std::string(500, 'x') : name;
}

class StreamReplay {
 public:
  StreamReplay(const Fields& scenario, CallStory story, Report& report)
      : scenario_(scenario), story_(std::move(story)), report_(report) {}

  void Run() {
    const Fields expect = scenario_.Object("expect");
    const auto delivered = expect.Int("response_messages_delivered");
    const auto sends_fail = expect.Bool("client_sends_report_failure");
    ConfigText& config = story_.plan.config;
    if (story_.buffer_bytes.has_value()) {
      config.method_guard["bufferLimitBytes"] =
          absl::StrCat(*story_.buffer_bytes);
    }
    config.top.emplace("retryGuard", R"({"breaker": {"failureRate": 0}})");
    if (!scenario_.AllRead()) return;
    if (ParseOrSkip(config, report_) == nullptr) return;
    WriteScript();
    if (local_.has_value()) {
      report_.Diverges(Rule::kHijackedStream);
      story_.expected.status = CodeName(grpc::Status(*local_, ""));
      story_.expected.attempts = 1;
    }
    for (const Kind& kind : Kinds()) {
      const std::string name = end2end::KindName(kind);
      const StreamSeen seen = Call(kind);
      CheckCall(name, seen);
      if (delivered.has_value()) {
        report_.Equal(name + " delivered", seen.delivered,
                      static_cast<int>(*delivered));
      }
      if (sends_fail.has_value()) {
        report_.Check(!seen.written.empty(), "nothing was sent");
        for (const bool written : seen.written) {
          report_.Equal(name + " send fails", !written, *sends_fail);
        }
      }
    }
  }

 private:
  void WriteScript() {
    for (const StoryAttempt& attempt : story_.attempts) {
      if (attempt.by == StoryAttempt::By::kLocal) {
        local_ = static_cast<grpc::StatusCode>(attempt.reply.status);
        continue;
      }
      for (size_t i = sends_.size(); i < attempt.reads.size(); ++i) {
        sends_.push_back(MessageOf(attempt.reads[i]));
      }
      replies_ = std::max({replies_, attempt.writes.size(),
                           static_cast<size_t>(attempt.reply.messages)});
      Play play;
      if (!attempt.reads.empty()) {
        play.Read(static_cast<int>(attempt.reads.size()));
      } else {
        play.ReadToEnd();
      }
      if (attempt.reply.headers) play.Headers();
      for (const std::string& text : attempt.writes) play.Reply(text);
      for (int i = 0; i < attempt.reply.messages; ++i) play.Reply("message");
      for (const auto& [key, value] : attempt.reply.trailers) {
        play.Trailing(key, value);
      }
      play.Ends({static_cast<grpc::StatusCode>(attempt.reply.status),
                 attempt.reply.message});
      script_.push_back(play);
    }
    if (sends_.empty()) sends_ = {"1", "2", "3"};
    if (script_.empty()) script_ = {end2end::Echo()};
  }

  // A shape fits if it has room for all messages, and needs no more.
  std::vector<Kind> Kinds() const {
    std::vector<Shape> shapes = {Shape::kBidi};
    const bool ok = story_.expected.status == "OK";
    if (sends_.size() == 1) shapes.push_back(Shape::kServerStream);
    if (replies_ == size_t{ok ? 1u : 0u})
      shapes.push_back(Shape::kClientStream);
    std::vector<Kind> kinds;
    for (const Shape shape : shapes) {
      for (const Style style : {Style::kSync, Style::kReactor}) {
        kinds.push_back({shape, style});
      }
    }
    return kinds;
  }

  StreamSeen Call(const Kind& kind) {
    const PlayServer server(script_);
    const auto clock = std::make_shared<testing::ManualClock>();
    const auto observer = std::make_shared<testing::RecordingObserver>();
    InterceptorOptions options;
    options.service_config_json = story_.plan.config.ToJson();
    options.clock = clock;
    options.observers = {observer};
    options.random_seed = 1;
    options.core_retries_off = true;
    auto ours = InterceptorFactory::Create(std::move(options));
    StreamSeen seen;
    if (!report_.Check(ours.ok(), "no channel")) return seen;
    std::vector<
        std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
        factories;
    factories.push_back(*std::move(ours));
    if (local_.has_value()) {
      factories.push_back(end2end::MakeEach(
          [this](auto*) { return new FailLocally(*local_); }));
    }
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    const auto channel =
        grpc::experimental::CreateCustomChannelWithInterceptors(
            server.address(), grpc::InsecureChannelCredentials(), arguments,
            std::move(factories));
    std::atomic<bool> done{false};
    std::thread application([&] {
      Drive(kind, channel, &seen);
      done = true;
    });
    // Ends each wait as soon as it is decided.
    for (size_t pumped = 0; !done; absl::SleepFor(absl::Microseconds(200))) {
      const auto decisions = observer->decisions();
      if (pumped == decisions.size()) continue;
      const testing::RecordedDecision& decision = decisions[pumped++];
      if (decision.verdict == Verdict::kRetry) clock->Advance(decision.delay);
    }
    application.join();
    server.AwaitEnded();
    seen.decisions = observer->decisions();
    seen.attempts = server.seen();
    return seen;
  }

  void Drive(const Kind& kind, const std::shared_ptr<grpc::Channel>& channel,
             StreamSeen* seen) const {
    grpc::ClientContext context;
    end2end::StreamOptions options;
    options.request = sends_.front();
    const auto stream = end2end::StartStream(kind, channel, &context, options);
    if (end2end::ClientStreams(kind.shape)) {
      for (const std::string& text : sends_) {
        seen->written.push_back(stream->Write(text));
      }
      // One that reads all there is waits for the half-close.
      stream->WritesDone();
    }
    if (story_.awaits_headers) stream->AwaitHeaders();
    std::string text;
    while (end2end::ServerStreams(kind.shape) && stream->Read(&text)) {
      ++seen->delivered;
    }
    seen->status = stream->Finish();
  }

  void CheckCall(const std::string& name, const StreamSeen& seen) {
    const CallEnd& expected = story_.expected;
    if (expected.attempts.has_value()) {
      report_.Equal(name + " attempts",
                    static_cast<int64_t>(seen.decisions.size()),
                    *expected.attempts);
    }
    if (expected.server_calls.has_value()) {
      report_.Equal(name + " server calls",
                    static_cast<int64_t>(seen.attempts.size()),
                    *expected.server_calls);
    }
    if (expected.status.has_value()) {
      report_.Equal(name + " status", CodeName(seen.status), *expected.status);
    }
    if (local_.has_value()) return;
    for (size_t i = 0; i < seen.attempts.size(); ++i) {
      if (!report_.Check(i < story_.attempts.size(), "too many attempts")) {
        return;
      }
      const StoryAttempt& attempt = story_.attempts[i];
      const PlayedCall& there = seen.attempts[i];
      const std::string what = absl::StrCat(name, ", attempt ", i + 1);
      if (!attempt.reads.empty()) {
        std::vector<std::string> reads;
        for (const std::string& text : attempt.reads) {
          reads.push_back(MessageOf(text));
        }
        report_.Equal(what + ", messages", absl::StrJoin(there.messages, ", "),
                      absl::StrJoin(reads, ", "));
      }
      if (attempt.previous.has_value()) {
        report_.Equal(
            what + ", header",
            absl::StrJoin(there.Values("grpc-previous-rpc-attempts"), ", "),
            *attempt.previous);
      }
    }
  }

  const Fields scenario_;
  CallStory story_;
  Report& report_;
  std::vector<std::string> sends_;
  size_t replies_ = 0;
  std::vector<Play> script_;
  std::optional<grpc::StatusCode> local_;  // every attempt fails so
};

}  // namespace

bool ReplayStreams(const Fields& scenario, CallStory story, Report& report) {
  if (!story.streams &&
      !scenario.Object("expect").Has("client_sends_report_failure")) {
    return false;
  }
  StreamReplay(scenario, std::move(story), report).Run();
  return true;
}

}  // namespace retry_guard::conformance
