#include "modes.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "grpcpp/alarm.h"
#include "grpcpp/grpcpp.h"
#include "retry_guard/channel.h"
#include "retry_guard/examples/storm.grpc.pb.h"
#include "scenario.h"

namespace storm {
namespace {

namespace pb = ::retry_guard::examples;
using Stub = std::shared_ptr<pb::Backend::Stub>;

// Everything that is not a matter of retries, and so the same for all.
grpc::ChannelArguments CommonArguments() {
  grpc::ChannelArguments arguments;
  // A connection per mode, not one that they share behind our back.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // After a restart the backend is to be found again soon: the defaults, 1 s to
  // 2 min, are made for the internet, and would hide what the modes differ in.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  return arguments;
}

std::shared_ptr<grpc::Channel> PlainChannel(
    const std::string& address, const grpc::ChannelArguments& arguments) {
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

// What one attempt needs until it is answered.
struct Attempt {
  grpc::ClientContext context;
  pb::WorkRequest request;
  pb::WorkReply reply;
};

void StartAttempt(const Stub& stub, absl::Time deadline, Done done) {
  auto attempt = std::make_shared<Attempt>();
  attempt->context.set_deadline(absl::ToChronoTime(deadline));
  stub->async()->Work(&attempt->context, &attempt->request, &attempt->reply,
                      [attempt, done = std::move(done)](
                          const grpc::Status& status) { done(status); });
}

// One call on the stub. Whether it is repeated is the channel's business.
void CallOnce(const Stub& stub, Done done) {
  StartAttempt(stub, absl::Now() + kDeadline, std::move(done));
}

// The loop that everybody writes once: try again in 100 ms, three times.
class NaiveLoop : public std::enable_shared_from_this<NaiveLoop> {
 public:
  NaiveLoop(Stub stub, Done done)
      : stub_(std::move(stub)), done_(std::move(done)) {}

  void Try() {
    ++attempts_;
    StartAttempt(stub_, std::min(absl::Now() + kAttemptTimeout, deadline_),
                 [self = shared_from_this()](const grpc::Status& status) {
                   self->OnAnswer(status);
                 });
  }

 private:
  static constexpr absl::Duration kPause = absl::Milliseconds(100);

  void OnAnswer(const grpc::Status& status) {
    const absl::Time next = absl::Now() + kPause;
    if (status.ok() || attempts_ == kMaxAttempts || next >= deadline_) {
      done_(status);
      return;
    }
    // The alarm keeps its callback after the call, and would keep us with it.
    pause_.Set(absl::ToChronoTime(next),
               [self = shared_from_this()](bool) mutable {
                 std::exchange(self, nullptr)->Try();
               });
  }

  const Stub stub_;
  const Done done_;
  const absl::Time deadline_ = absl::Now() + kDeadline;
  int attempts_ = 0;
  grpc::Alarm pause_;
};

void CallNaively(const Stub& stub, Done done) {
  std::make_shared<NaiveLoop>(stub, std::move(done))->Try();
}

std::shared_ptr<grpc::Channel> NoRetriesChannel(const std::string& address) {
  grpc::ChannelArguments arguments = CommonArguments();
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return PlainChannel(address, arguments);
}

std::shared_ptr<grpc::Channel> BuiltinRetriesChannel(
    const std::string& address) {
  grpc::ChannelArguments arguments = CommonArguments();
  // gRPC has no timeout for a single attempt.
  arguments.SetServiceConfigJSON(absl::StrFormat(
      R"json({
        "methodConfig": [{
          "name": [{"service": "retry_guard.examples.Backend"}],
          "retryPolicy": {
            "maxAttempts": %d,
            "initialBackoff": "0.1s",
            "maxBackoff": "10s",
            "backoffMultiplier": 2,
            "retryableStatusCodes": ["UNAVAILABLE"]
          }
        }],
        "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
      })json",
      kMaxAttempts));
  return PlainChannel(address, arguments);
}

std::shared_ptr<grpc::Channel> RetryGuardChannel(const std::string& address) {
  retry_guard::InterceptorOptions options;
  options.service_config_json = absl::StrFormat(
      R"json({
        "methodConfig": [{
          "name": [{"service": "retry_guard.examples.Backend"}],
          "retryGuard": {
            "maxAttempts": %d,
            "perAttemptTimeout": "%.3fs",
            "idempotency": "IDEMPOTENT"
          }
        }],
        "retryGuard": {"breaker": {"openFor": "0.5s", "maxOpenFor": "1s"}}
      })json",
      kMaxAttempts, absl::ToDoubleSeconds(kAttemptTimeout));
  auto channel =
      retry_guard::CreateChannel(address, grpc::InsecureChannelCredentials(),
                                 std::move(options), CommonArguments());
  if (!channel.ok()) throw std::runtime_error(channel.status().ToString());
  return *std::move(channel);
}

using MakeChannel = std::shared_ptr<grpc::Channel> (*)(const std::string&);
using Call = void (*)(const Stub&, Done);

struct Mode {
  std::string_view name;
  MakeChannel make_channel;
  Call call;
};

constexpr Mode kModes[] = {
    {"no_retry", NoRetriesChannel, CallOnce},
    {"naive", NoRetriesChannel, CallNaively},
    {"grpc_builtin", BuiltinRetriesChannel, CallOnce},
    {"retry_guard", RetryGuardChannel, CallOnce},
};

}  // namespace

const std::vector<std::string_view>& ModeNames() {
  static const auto* const names = [] {
    auto* result = new std::vector<std::string_view>;
    for (const Mode& mode : kModes) result->push_back(mode.name);
    return result;
  }();
  return *names;
}

Client::Client(std::string_view mode, const std::string& address) {
  const auto* found =
      std::find_if(std::begin(kModes), std::end(kModes),
                   [mode](const Mode& each) { return each.name == mode; });
  if (found == std::end(kModes)) {
    throw std::invalid_argument("unknown mode " + std::string(mode));
  }
  call_ = found->call;
  channel_ = found->make_channel(address);
  stub_ = pb::Backend::NewStub(channel_);
  if (!channel_->WaitForConnected(
          absl::ToChronoTime(absl::Now() + absl::Seconds(5)))) {
    throw std::runtime_error("cannot connect to the backend");
  }
}

Client::~Client() {
  // A callback that has just told its answer may still hold the channel for a
  // moment, and gRPC 1.51 aborts when the last one goes on a callback thread.
  stub_.reset();
  while (channel_.use_count() > 1) absl::SleepFor(absl::Milliseconds(1));
}

void Client::Call(Done done) const { call_(stub_, std::move(done)); }

}  // namespace storm
