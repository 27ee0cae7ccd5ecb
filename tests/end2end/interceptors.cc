#include "tests/end2end/interceptors.h"

#include <utility>

#include "absl/base/call_once.h"
#include "retry_guard/testing/echo.pb.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;

class Watcher final : public Interceptor {
 public:
  Watcher(std::shared_ptr<Sightings> sightings, bool cast,
          const std::string& method)
      : sightings_(std::move(sightings)), cast_(cast), method_(method) {}

  ~Watcher() override {
    if (call_ >= 0) {
      sightings_->Update(call_, [](auto& call) { call.ended = true; });
    }
  }

  void Intercept(InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_CANCEL)) {
      batch->Proceed();
      return;
    }
    absl::call_once(begun_, [this] { call_ = sightings_->Begin(method_); });
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      const auto* const request =
          static_cast<const EchoRequest*>(batch->GetSendMessage());
      sightings_->Update(call_, [&](auto& call) {
        ++call.messages_sent;
        if (cast_ && request != nullptr)
          call.requests.push_back(request->text());
      });
    }
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_MESSAGE)) {
      const auto* const reply =
          static_cast<const EchoReply*>(batch->GetRecvMessage());
      sightings_->Update(call_, [&](auto& call) {
        ++call.messages_received;
        if (reply == nullptr) ++call.null_messages_received;
        if (cast_ && reply != nullptr) call.replies.push_back(reply->text());
      });
    }
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_STATUS)) {
      const grpc::StatusCode code = batch->GetRecvStatus()->error_code();
      sightings_->Update(call_,
                         [code](auto& call) { call.statuses.push_back(code); });
    }
    batch->Proceed();
  }

 private:
  const std::shared_ptr<Sightings> sightings_;
  const bool cast_;
  const std::string method_;
  absl::once_flag begun_;
  int call_ = -1;
};

class FunctionFactory final : public ClientInterceptorFactoryInterface {
 public:
  explicit FunctionFactory(std::function<Interceptor*(ClientRpcInfo*)> make)
      : make_(std::move(make)) {}

  Interceptor* CreateClientInterceptor(ClientRpcInfo* info) override {
    return make_(info);
  }

 private:
  const std::function<Interceptor*(ClientRpcInfo*)> make_;
};

class FunctionInterceptor final : public Interceptor {
 public:
  explicit FunctionInterceptor(
      std::function<void(InterceptorBatchMethods*)> on_batch)
      : on_batch_(std::move(on_batch)) {}

  void Intercept(InterceptorBatchMethods* batch) override { on_batch_(batch); }

 private:
  const std::function<void(InterceptorBatchMethods*)> on_batch_;
};

}  // namespace

int Sightings::Begin(const std::string& method) {
  absl::MutexLock lock(&mu_);
  calls_.emplace_back();
  calls_.back().method = method;
  return static_cast<int>(calls_.size()) - 1;
}

void Sightings::Update(int call, const std::function<void(Call&)>& change) {
  absl::MutexLock lock(&mu_);
  change(calls_[call]);
}

std::vector<Sightings::Call> Sightings::calls() const {
  absl::MutexLock lock(&mu_);
  return calls_;
}

bool Sightings::AwaitEnded(int count) const {
  absl::MutexLock lock(&mu_);
  const auto all_ended = [this, count]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    for (const Call& call : calls_) {
      if (!call.ended) return false;
    }
    return static_cast<int>(calls_.size()) >= count;
  };
  return mu_.AwaitWithTimeout(absl::Condition(&all_ended), absl::Seconds(20));
}

std::unique_ptr<ClientInterceptorFactoryInterface> Watch(
    std::shared_ptr<Sightings> sightings, bool cast) {
  return MakeEach([sightings = std::move(sightings), cast](auto* info) {
    return new Watcher(sightings, cast, info->method());
  });
}

std::unique_ptr<ClientInterceptorFactoryInterface> NoInterceptor() {
  return MakeEach([](ClientRpcInfo*) { return nullptr; });
}

std::unique_ptr<ClientInterceptorFactoryInterface> MakeEach(
    std::function<Interceptor*(ClientRpcInfo*)> make) {
  return std::make_unique<FunctionFactory>(std::move(make));
}

std::unique_ptr<ClientInterceptorFactoryInterface> OnEachBatch(
    std::function<void(InterceptorBatchMethods*)> on_batch) {
  return MakeEach([on_batch = std::move(on_batch)](ClientRpcInfo*) {
    return new FunctionInterceptor(on_batch);
  });
}

}  // namespace retry_guard::end2end
