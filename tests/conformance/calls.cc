#include "tests/conformance/calls.h"

#include <grpcpp/support/client_interceptor.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "retry_guard/call/guard_state.h"
#include "retry_guard/channel.h"
#include "retry_guard/interceptor.h"

namespace retry_guard::conformance {
namespace {

using grpc::experimental::ClientInterceptorFactoryInterface;
using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

// Stands after ours and fails attempts that never get to the wire.
class LocalFailure final : public Interceptor {
 public:
  // gRPC makes one for the caller's own call too; it never runs if ours hijacks
  // that.
  LocalFailure(std::atomic<int>* left, grpc::StatusCode code)
      : left_(left), code_(code) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    using Hook = InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Hook::PRE_SEND_INITIAL_METADATA)) {
      hijacks_ = left_->fetch_sub(1) > 0;
      if (hijacks_) {
        methods->Hijack();
        return;
      }
    }
    if (!hijacks_) {
      methods->Proceed();
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
  std::atomic<int>* const left_;  // the factory's
  const grpc::StatusCode code_;
  bool hijacks_ = false;
};

class LocalFailureFactory final : public ClientInterceptorFactoryInterface {
 public:
  LocalFailureFactory(int count, grpc::StatusCode code)
      : left_(count), code_(code) {}

  Interceptor* CreateClientInterceptor(ClientRpcInfo* /*info*/) override {
    return new LocalFailure(&left_, code_);
  }

 private:
  std::atomic<int> left_;
  const grpc::StatusCode code_;
};

void Complete(ConfigText* config) {
  config->top.emplace("retryGuard", R"({
    "budget": {"minRetries": 100000}, "breaker": {"failureRate": 0}})");
}

int FreePort() {
  const ScenarioServer server({Reply::Ok()});
  return server.port();
}

CallPlan Completed(CallPlan plan) {
  Complete(&plan.config);
  return plan;
}

}  // namespace

// Remembers the level of the throttle too.
class CallRig::Throttled final : public testing::RecordingObserver {
 public:
  explicit Throttled(std::weak_ptr<Guard> guard) : guard_(std::move(guard)) {}

  void OnDecision(const Decision& decision) override {
    if (const auto guard = guard_.lock()) {
      absl::MutexLock lock(&mu_);
      levels_.push_back(
          guard->state().budget().ThrottleMilliTokens().value_or(-1));
    }
    RecordingObserver::OnDecision(decision);
  }

  std::vector<int64_t> levels() const {
    absl::MutexLock lock(&mu_);
    return levels_;
  }

 private:
  const std::weak_ptr<Guard> guard_;
  mutable absl::Mutex mu_;
  std::vector<int64_t> levels_ ABSL_GUARDED_BY(mu_);
};

CallRig::CallRig(const CallPlan& plan)
    : plan_(Completed(plan)),
      guard_(Guard::Create()),
      clock_(std::make_shared<testing::ManualClock>()),
      observer_(std::make_shared<Throttled>(guard_)) {
  if (plan_.connect_failures == 0) {
    server_ = std::make_unique<ScenarioServer>(plan_.replies);
    port_ = server_->port();
  } else {
    port_ = FreePort();
  }
  guard_->SetRetriesEnabled(plan_.retries_enabled);

  InterceptorOptions options;
  options.service_config_json = plan_.config.ToJson();
  options.guard = guard_;
  options.clock = clock_;
  options.observers = {observer_};
  options.random_seed = 1;
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  // Not the connection of another scenario.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const std::string target = absl::StrCat("127.0.0.1:", port_);
  if (plan_.local_failures == 0) {
    auto channel = CreateChannel(target, grpc::InsecureChannelCredentials(),
                                 std::move(options), arguments);
    if (channel.ok()) channel_ = *std::move(channel);
    return;
  }
  // An interceptor after ours: the channel is made by hand.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  options.core_retries_off = true;
  auto ours = InterceptorFactory::Create(std::move(options));
  if (!ours.ok()) return;
  std::vector<std::unique_ptr<ClientInterceptorFactoryInterface>> creators;
  creators.push_back(*std::move(ours));
  creators.push_back(std::make_unique<LocalFailureFactory>(plan_.local_failures,
                                                           plan_.local_status));
  channel_ = grpc::experimental::CreateCustomChannelWithInterceptors(
      target, grpc::InsecureChannelCredentials(), arguments,
      std::move(creators));
}

CallRig::~CallRig() = default;

void CallRig::BurnThrottleTokens(int count) {
  for (int i = 0; i < count; ++i) guard_->state().budget().CountFailure();
}

std::optional<int64_t> CallRig::throttle_milli_tokens() const {
  return guard_->state().budget().ThrottleMilliTokens();
}

bool CallRig::Free() {
  channel_ = nullptr;
  // Whoever still holds a call, holds the channel's observers. gRPC frees the
  // last of it on threads of its own.
  for (int i = 0; i < 2000 && observer_.use_count() > 1; ++i) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  return observer_.use_count() == 1;
}

// Ends each wait as soon as it is decided, by moving the clock just so far.
void CallRig::Pump(end2end::StartedCall& call, grpc::ClientContext& context) {
  bool cancelled = false;
  int connect_failures = 0;
  while (!call.done()) {
    if (plan_.cancel_in_flight && !cancelled && server_ != nullptr &&
        server_->seen().size() >= plan_.replies.size()) {
      context.TryCancel();
      cancelled = true;
    }
    const auto decisions = observer_->decisions();
    if (pumped_ == decisions.size()) {
      absl::SleepFor(absl::Microseconds(200));
      continue;
    }
    const testing::RecordedDecision& decision = decisions[pumped_++];
    if (decision.verdict != Verdict::kRetry) continue;
    if (plan_.cancel_in_backoff) {
      context.TryCancel();
      continue;
    }
    if (++connect_failures == plan_.connect_failures) {
      server_ = std::make_unique<ScenarioServer>(plan_.replies, port_);
      channel_->WaitForConnected(std::chrono::system_clock::now() +
                                 std::chrono::seconds(10));
    }
    clock_->Advance(decision.delay);
  }
  pumped_ = observer_->decisions().size();
}

CallSeen CallRig::Call(end2end::Style style) {
  CallSeen seen;
  if (channel_ == nullptr) {
    seen.status = grpc::Status(grpc::StatusCode::INTERNAL, "no channel");
    return seen;
  }
  {
    grpc::ClientContext context;
    if (plan_.deadline < absl::InfiniteDuration()) {
      context.set_deadline(absl::ToChronoTime(absl::Now() + plan_.deadline));
    }
    {
      // Gone before the call ends.
      std::multimap<std::string, std::string> metadata = plan_.metadata;
      for (const auto& [key, value] : metadata) {
        context.AddMetadata(key, value);
      }
    }
    end2end::StartedCall call(style, channel_, &context,
                              std::string(plan_.request_bytes, 'x'),
                              plan_.method);
    Pump(call, context);
    seen.status = call.Await();
    seen.text = call.text();
  }
  seen.decisions = observer_->decisions();
  seen.throttle = observer_->levels();
  if (server_ != nullptr) seen.attempts = server_->seen();
  seen.snapshot = guard_->Snapshot();
  return seen;
}

CallSeen MakeCall(const CallPlan& plan, end2end::Style style) {
  CallRig rig(plan);
  CallSeen seen = rig.Call(style);
  seen.everything_freed = rig.Free();
  return seen;
}

}  // namespace retry_guard::conformance
