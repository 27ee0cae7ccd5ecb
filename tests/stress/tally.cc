#include "tests/stress/tally.h"

#include <stdexcept>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace retry_guard::stress {
namespace {

using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

class CallCounter final : public Interceptor {
 public:
  explicit CallCounter(std::shared_ptr<Tally> tally)
      : tally_(std::move(tally)) {}

  void Intercept(InterceptorBatchMethods* batch) override {
    if (!begun_ && batch->QueryInterceptionHookPoint(
                       InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      begun_ = true;
      tally_->begun.fetch_add(1, std::memory_order_relaxed);
    }
    batch->Proceed();
  }

 private:
  const std::shared_ptr<Tally> tally_;
  bool begun_ = false;
};

class AttemptWatcher final : public Interceptor {
 public:
  AttemptWatcher(std::shared_ptr<Tally> tally, Ledger* ledger, Faults* faults)
      : tally_(std::move(tally)), ledger_(ledger), faults_(faults) {}

  void Intercept(InterceptorBatchMethods* batch) override {
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      Starts(*batch->GetSendInitialMetadata());
    }
    if (record_ != nullptr && batch->QueryInterceptionHookPoint(
                                  InterceptionHookPoints::POST_RECV_STATUS)) {
      const grpc::Status& status = *batch->GetRecvStatus();
      record_->AttemptEnded(number_, status.error_code(),
                            status.error_message());
    }
    batch->Proceed();
  }

 private:
  void Starts(const std::multimap<std::string, std::string>& metadata) {
    uint64_t id = 0;
    const auto call = metadata.find(kCallKey);
    if (call == metadata.end() || !absl::SimpleAtoi(call->second, &id)) return;
    int previous = 0;
    const auto found = metadata.find("grpc-previous-rpc-attempts");
    if (found != metadata.end()) {
      (void)absl::SimpleAtoi(found->second, &previous);
    }
    number_ = previous + 1;
    tally_->started.fetch_add(1, std::memory_order_relaxed);
    record_ = ledger_->Find(id);
    if (record_ == nullptr) {
      faults_->Add(absl::StrCat("attempt ", number_, " of call ", id,
                                " starts when the call has ended"));
      return;
    }
    record_->AttemptStarted(number_);
    const uint64_t epoch = tally_->switch_epoch;
    if (number_ > 1 && epoch % 2 == 1 && record_->switch_epoch == epoch) {
      faults_->Add(absl::StrCat("a retry though the kill switch was off: ",
                                record_->ToString()));
    }
  }

  const std::shared_ptr<Tally> tally_;
  Ledger* const ledger_;
  Faults* const faults_;
  std::shared_ptr<Record> record_;
  int number_ = 0;
};

template <typename Make>
class Factory final : public ClientFactory {
 public:
  explicit Factory(Make make) : make_(std::move(make)) {}
  Interceptor* CreateClientInterceptor(ClientRpcInfo* /*info*/) override {
    return make_();
  }

 private:
  const Make make_;
};

class DecisionCounter final : public Observer {
 public:
  DecisionCounter(std::shared_ptr<Tally> tally, std::weak_ptr<Guard> guard)
      : tally_(std::move(tally)), guard_(std::move(guard)) {}

  void OnDecision(const Decision& decision) override {
    if (decision.verdict == Verdict::kRetry) {
      tally_->retries.fetch_add(1, std::memory_order_relaxed);
    } else if (tally_->returns.fetch_add(1, std::memory_order_relaxed) % 997 ==
               0) {
      if (const auto guard = guard_.lock()) guard->Snapshot();
    }
  }

  void OnAttempt(const AttemptReport& /*report*/) override {
    if (tally_->reports.fetch_add(1, std::memory_order_relaxed) % 4999 == 0) {
      throw std::runtime_error("an observer that fails");
    }
  }

 private:
  const std::shared_ptr<Tally> tally_;
  const std::weak_ptr<Guard> guard_;
};

}  // namespace

std::unique_ptr<ClientFactory> CountCalls(std::shared_ptr<Tally> tally) {
  auto make = [tally] { return new CallCounter(tally); };
  return std::make_unique<Factory<decltype(make)>>(std::move(make));
}

std::unique_ptr<ClientFactory> WatchAttempts(std::shared_ptr<Tally> tally,
                                             Ledger* ledger, Faults* faults) {
  auto make = [tally, ledger, faults] {
    return new AttemptWatcher(tally, ledger, faults);
  };
  return std::make_unique<Factory<decltype(make)>>(std::move(make));
}

std::shared_ptr<Observer> CountDecisions(std::shared_ptr<Tally> tally,
                                         std::weak_ptr<Guard> guard) {
  return std::make_shared<DecisionCounter>(std::move(tally), std::move(guard));
}

}  // namespace retry_guard::stress
