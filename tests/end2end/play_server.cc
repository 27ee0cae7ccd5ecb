#include "tests/end2end/play_server.h"

#include <grpcpp/generic/async_generic_service.h>

#include <algorithm>
#include <atomic>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace retry_guard::end2end {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;

std::string TextOf(grpc::ByteBuffer* bytes) {
  EchoRequest request;
  (void)grpc::SerializationTraits<EchoRequest>::Deserialize(bytes, &request)
      .ok();
  return request.text();
}

grpc::ByteBuffer ReplyOf(const std::string& text) {
  EchoReply reply;
  reply.set_text(text);
  const grpc::Slice slice(reply.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

class PlayServer::Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(std::vector<Play> script) : script_(std::move(script)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

  void SetScript(std::vector<Play> script) {
    absl::MutexLock lock(&mu_);
    script_ = std::move(script);
    seen_.clear();
    released_ = false;
  }

  // False: it need not wait. Else whoever takes it back has to go on with it.
  bool Park(Reactor* reactor, bool until_release);
  // True: it was parked.
  bool TakeBack(Reactor* reactor);
  void Release();

  std::vector<PlayedCall> seen() const {
    absl::MutexLock lock(&mu_);
    return seen_;
  }

  void Update(size_t call, const std::function<void(PlayedCall&)>& change) {
    absl::MutexLock lock(&mu_);
    change(seen_[call]);
  }

  bool Await(
      const std::function<bool(const std::vector<PlayedCall>&)>& enough) const {
    absl::MutexLock lock(&mu_);
    const auto condition = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return enough(seen_);
    };
    return mu_.AwaitWithTimeout(absl::Condition(&condition), absl::Seconds(30));
  }

 private:
  mutable absl::Mutex mu_;
  std::vector<Play> script_ ABSL_GUARDED_BY(mu_);
  std::vector<PlayedCall> seen_ ABSL_GUARDED_BY(mu_);
  bool released_ ABSL_GUARDED_BY(mu_) = false;
  // Those that wait, and whether for Release.
  std::map<Reactor*, bool> parked_ ABSL_GUARDED_BY(mu_);
};

// One call. Steps follow each other; what has failed because the client is gone
// counts as done.
class PlayServer::Reactor final : public grpc::ServerGenericBidiReactor {
 public:
  Reactor(Service* service, size_t number, Play play)
      : service_(service), number_(number), play_(std::move(play)) {}

  void Start() { GoOn(); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      service_->Update(number_, [](auto& call) { call.half_closed = true; });
      Next();
      return;
    }
    const std::string text = TextOf(&request_);
    service_->Update(number_,
                     [&](auto& call) { call.messages.push_back(text); });
    if (step().kind == Play::Step::Kind::kEcho) {
      Write(text);
    } else if (step().kind == Play::Step::Kind::kReadToEnd ||
               ++read_ < step().count) {
      StartRead(&request_);
    } else {
      Next();
    }
  }

  void OnWriteDone(bool ok) override {
    if (ok) service_->Update(number_, [](auto& call) { ++call.written; });
    if (ok && step().kind == Play::Step::Kind::kEcho) {
      StartRead(&request_);
    } else {
      Next();
    }
  }

  void OnSendInitialMetadataDone(bool /*ok*/) override { Next(); }

  void OnCancel() override {
    service_->Update(number_, [](auto& call) { call.cancelled = true; });
    cancelled_ = true;
    if (service_->TakeBack(this)) Next();
  }

  void OnDone() override {
    service_->Update(number_, [](auto& call) { call.ended = true; });
    delete this;
  }

  void Next() {
    ++at_;
    read_ = 0;
    GoOn();
  }

 private:
  const Play::Step& step() const { return play_.steps()[at_]; }

  void GoOn() {
    if (at_ == play_.steps().size()) {
      Finish(play_.status());
      return;
    }
    switch (step().kind) {
      case Play::Step::Kind::kRead:
      case Play::Step::Kind::kReadToEnd:
      case Play::Step::Kind::kEcho:
        StartRead(&request_);
        return;
      case Play::Step::Kind::kHeaders:
        StartSendInitialMetadata();
        return;
      case Play::Step::Kind::kReply:
        Write(step().text);
        return;
      case Play::Step::Kind::kPause:
      case Play::Step::Kind::kHold:
        break;
    }
    const bool waits =
        service_->Park(this, step().kind == Play::Step::Kind::kPause);
    // A cancellation that has found nothing to take back.
    if (!waits || (cancelled_ && service_->TakeBack(this))) Next();
  }

  void Write(const std::string& text) {
    reply_ = ReplyOf(text);
    StartWrite(&reply_);
  }

  Service* const service_;
  const size_t number_;
  const Play play_;
  size_t at_ = 0;
  int read_ = 0;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
  std::atomic<bool> cancelled_{false};
};

bool PlayServer::Service::Park(Reactor* reactor, bool until_release) {
  absl::MutexLock lock(&mu_);
  if (until_release && released_) return false;
  parked_.emplace(reactor, until_release);
  return true;
}

bool PlayServer::Service::TakeBack(Reactor* reactor) {
  absl::MutexLock lock(&mu_);
  return parked_.erase(reactor) > 0;
}

void PlayServer::Service::Release() {
  std::vector<Reactor*> free;
  {
    absl::MutexLock lock(&mu_);
    released_ = true;
    for (auto it = parked_.begin(); it != parked_.end();) {
      if (it->second) free.push_back(it->first);
      it = it->second ? parked_.erase(it) : std::next(it);
    }
  }
  for (Reactor* const reactor : free) reactor->Next();
}

grpc::ServerGenericBidiReactor* PlayServer::Service::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  PlayedCall seen;
  static_cast<SeenCall&>(seen) = LookAt(context->method(), context);
  Play play;
  size_t number = 0;
  {
    absl::MutexLock lock(&mu_);
    number = seen_.size();
    seen_.push_back(std::move(seen));
    play = script_[std::min(number, script_.size() - 1)];
  }
  for (const auto& [key, value] : play.initial()) {
    context->AddInitialMetadata(key, value);
  }
  for (const auto& [key, value] : play.trailing()) {
    context->AddTrailingMetadata(key, value);
  }
  auto* const reactor = new Reactor(this, number, std::move(play));
  reactor->Start();
  return reactor;
}

PlayServer::PlayServer(
    std::vector<Play> script,
    const std::shared_ptr<grpc::ServerCredentials>& credentials, int port)
    : service_(std::make_unique<Service>(std::move(script))) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), credentials,
                           &port_);
  // Small, so that what is too large for it is soon sent.
  builder.SetMaxReceiveMessageSize(256 << 10);
  // As narrow as they start, so that what is not read soon holds up its writer.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.RegisterCallbackGenericService(service_.get());
  server_ = builder.BuildAndStart();
}

PlayServer::~PlayServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

std::string PlayServer::address() const {
  return absl::StrCat("127.0.0.1:", port_);
}

void PlayServer::SetScript(std::vector<Play> script) {
  AwaitEnded();
  service_->SetScript(std::move(script));
}

void PlayServer::Release() { service_->Release(); }

std::vector<PlayedCall> PlayServer::seen() const { return service_->seen(); }

bool PlayServer::AwaitCalls(int count) const {
  return service_->Await(
      [count](const auto& seen) { return std::size(seen) >= size_t(count); });
}

bool PlayServer::AwaitMessage(int number) const {
  return service_->Await([number](const auto& seen) {
    return std::size(seen) > size_t(number) && !seen[number].messages.empty();
  });
}

bool PlayServer::AwaitCancelled(int count) const {
  return service_->Await([count](const auto& seen) {
    return std::count_if(seen.begin(), seen.end(), [](const auto& call) {
             return call.cancelled;
           }) >= count;
  });
}

bool PlayServer::AwaitEnded() const {
  return service_->Await([](const auto& seen) {
    return std::all_of(seen.begin(), seen.end(),
                       [](const auto& call) { return call.ended; });
  });
}

}  // namespace retry_guard::end2end
