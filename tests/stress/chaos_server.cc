#include "tests/stress/chaos_server.h"

#include <grpcpp/generic/async_generic_service.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "retry_guard/rpc_status.pb.h"
#include "retry_guard/testing/echo.pb.h"

namespace retry_guard::stress {
namespace {

using retry_guard::testing::EchoReply;
using retry_guard::testing::EchoRequest;

std::string ValueOf(const grpc::ServerContextBase& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return "";
  return std::string(found->second.data(), found->second.size());
}

std::string RetryInfoDetails(int millis) {
  wire::RetryInfo info;
  info.mutable_retry_delay()->set_nanos(millis * 1'000'000);
  wire::RpcStatus status;
  auto* const any = status.add_details();
  any->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  any->set_value(info.SerializeAsString());
  return status.SerializeAsString();
}

// One attempt that is being served. Operations are started one at a time; only
// a cancellation may come between.
class Play final : public grpc::ServerGenericBidiReactor {
 public:
  Play(grpc::GenericCallbackServerContext* context, Plan plan, int attempt,
       std::shared_ptr<Record> record, bool calm, Faults* faults)
      : context_(context),
        plan_(std::move(plan)),
        attempt_(attempt),
        step_(calm ? Step() : plan_.StepFor(attempt)),
        record_(std::move(record)),
        faults_(faults) {}

  void Start() {
    if (!step_.headers) return Next();
    // With something in them: empty ones may become trailers only on their way.
    context_->AddInitialMetadata("chaos-headers", "1");
    absl::MutexLock lock(&mu_);
    if (!finished_) StartSendInitialMetadata();
  }

  void OnSendInitialMetadataDone(bool /*ok*/) override { Next(); }

  void OnReadDone(bool ok) override {
    if (ok) {
      Check();
      ++received_;
    } else {
      half_closed_ = true;
    }
    Next();
  }

  void OnWriteDone(bool ok) override {
    ++sent_;
    if (ok) {
      Next();
    } else {
      FinishOnce(grpc::Status::CANCELLED);
    }
  }

  void OnCancel() override { FinishOnce(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }

 private:
  int replies() const {
    if (step_.end != Step::End::kOk) {
      // A reply answers a request, and one shape in two has only one.
      const int most =
          plan_.streams_down() ? received_ : std::min(received_, 1);
      const bool one_request = plan_.shape == Shape::kServerStream;
      return std::min(step_.writes, one_request ? 2 * most : most);
    }
    switch (plan_.shape) {
      case Shape::kServerStream:
        return plan_.replies;
      case Shape::kBidi:
        return received_;
      default:
        return 1;
    }
  }

  void Next() {
    const bool echoes =
        plan_.shape == Shape::kBidi && step_.end == Step::End::kOk;
    const bool reads =
        !half_closed_ && (step_.reads < 0 || received_ < step_.reads);
    if ((!reads || echoes) && sent_ < replies()) {
      Write();
    } else if (reads) {
      absl::MutexLock lock(&mu_);
      if (!finished_) StartRead(&bytes_);
    } else if (step_.end != Step::End::kStall) {
      End();
    }
  }

  void Check() {
    EchoRequest request;
    const bool decoded =
        grpc::SerializationTraits<EchoRequest>::Deserialize(&bytes_, &request)
            .ok();
    if (!decoded || request.text() != plan_.Request(received_)) {
      faults_->Add(absl::StrCat(
          "the server gets as message ", received_, " of attempt ", attempt_,
          ": ", request.text().substr(0, 50), "\n  ", plan_.ToString()));
    }
    requests_.push_back(request.text());
  }

  std::string Answered() const {
    if (requests_.empty()) return "";
    return plan_.shape == Shape::kBidi ? requests_[sent_] : requests_.back();
  }

  void Write() {
    EchoReply reply;
    reply.set_text(plan_.Reply(attempt_, sent_, Answered()));
    bool own = false;
    out_.Clear();
    (void)grpc::SerializationTraits<EchoReply>::Serialize(reply, &out_, &own);
    absl::MutexLock lock(&mu_);
    if (!finished_) StartWrite(&out_);
  }

  void End() {
    if (record_ != nullptr) record_->Ending(attempt_);
    if (step_.end == Step::End::kOk) return FinishOnce(grpc::Status::OK);
    std::string details;
    absl::MutexLock lock(&mu_);
    if (finished_) return;
    AddHint(&details);
    finished_ = true;
    Finish(grpc::Status(step_.code, plan_.ErrorText(attempt_), details));
  }

  void AddHint(std::string* details) {
    const int millis = attempt_ % 2 == 1 ? 0 : 3;
    const auto trail = [&](const char* key, std::string value) {
      context_->AddTrailingMetadata(key, std::move(value));
    };
    switch (step_.hint) {
      case Hint::kNone:
        break;
      case Hint::kPushback:
        trail("grpc-retry-pushback-ms", absl::StrCat(millis));
        break;
      case Hint::kPushbackTooLong:
        trail("grpc-retry-pushback-ms", "3600000");
        break;
      case Hint::kPushbackStop:
        trail("grpc-retry-pushback-ms", "-1");
        break;
      case Hint::kPushbackGarbage:
        trail("grpc-retry-pushback-ms", "soon, 99999999999999999999");
        break;
      case Hint::kRetryInfo:
        *details = RetryInfoDetails(millis);
        break;
      case Hint::kDetailsGarbage:
        *details = std::string("\x08\xff\xff\xff\x1a\xff\x01", 7);
        break;
      case Hint::kRetryAfter:
        trail("retry-after", "0");
        break;
      case Hint::kRetryAfterGarbage:
        trail("retry-after", "Fri, 31 Feb 2093 25:61:61 GMT");
        break;
    }
  }

  void FinishOnce(const grpc::Status& status) {
    absl::MutexLock lock(&mu_);
    if (std::exchange(finished_, true)) return;
    Finish(status);
  }

  grpc::GenericCallbackServerContext* const context_;
  const Plan plan_;
  const int attempt_;
  const Step step_;
  const std::shared_ptr<Record> record_;  // null: the call has ended already
  Faults* const faults_;

  grpc::ByteBuffer bytes_, out_;
  std::vector<std::string> requests_;
  int received_ = 0;
  int sent_ = 0;
  bool half_closed_ = false;

  absl::Mutex mu_;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

// Not one of ours.
class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  Refusal() { Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "what?")); }
  void OnDone() override { delete this; }
};

}  // namespace

class ChaosServer::Service final : public grpc::CallbackGenericService {
 public:
  Service(uint64_t seed, const Limits& limits, Ledger* ledger, Faults* faults,
          const std::atomic<bool>* calm)
      : seed_(seed),
        limits_(limits),
        ledger_(ledger),
        faults_(faults),
        calm_(calm) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    uint64_t id = 0;
    if (!absl::SimpleAtoi(ValueOf(*context, kCallKey), &id)) {
      return new Refusal();
    }
    // Sent whether or not this layer owns the retries.
    int previous = 0;
    (void)absl::SimpleAtoi(ValueOf(*context, "grpc-previous-rpc-attempts"),
                           &previous);
    const int attempt = previous + 1;
    arrivals_.fetch_add(1, std::memory_order_relaxed);
    std::shared_ptr<Record> record = ledger_->Find(id);
    if (record != nullptr) {
      record->Arrived(attempt);
    } else {
      ledger_->ArrivedLate(id, attempt);
    }
    const bool calm = calm_->load();
    Plan plan = calm ? CalmPlan(seed_, id) : MakePlan(seed_, id, limits_);
    auto* const play = new Play(context, std::move(plan), attempt,
                                std::move(record), calm, faults_);
    play->Start();
    return play;
  }

  std::unique_ptr<Service> Again() const {
    return std::make_unique<Service>(seed_, limits_, ledger_, faults_, calm_);
  }

  int64_t arrivals() const { return arrivals_; }

 private:
  const uint64_t seed_;
  const Limits limits_;
  Ledger* const ledger_;
  Faults* const faults_;
  const std::atomic<bool>* const calm_;
  std::atomic<int64_t> arrivals_{0};
};

ChaosServer::ChaosServer(uint64_t seed, const Limits& limits, Ledger* ledger,
                         Faults* faults)
    : service_(
          std::make_unique<Service>(seed, limits, ledger, faults, &calm_)) {
  Start();
}

ChaosServer::~ChaosServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

void ChaosServer::Start() {
  // Nothing else listens on a port that was ours a moment ago.
  for (int tries = 0; tries < 100; ++tries) {
    grpc::ServerBuilder builder;
    int bound = 0;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port_),
                             grpc::InsecureServerCredentials(), &bound);
    builder.RegisterCallbackGenericService(service_.get());
    server_ = builder.BuildAndStart();
    if (server_ != nullptr && bound != 0) {
      port_ = bound;
      return;
    }
  }
  std::fprintf(stderr, "cannot listen on port %d\n", port_);
  std::abort();
}

void ChaosServer::Restart() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_ = nullptr;
  arrivals_before_ += service_->arrivals();
  // One cannot be registered twice.
  service_ = service_->Again();
  Start();
}

std::string ChaosServer::address() const {
  // Not spelt as an address: what never connected can be told apart.
  return absl::StrCat("dns:///127.0.0.1:", port_);
}

int64_t ChaosServer::arrivals() const {
  return arrivals_before_ + service_->arrivals();
}

}  // namespace retry_guard::stress
