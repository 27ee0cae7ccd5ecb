#include "tests/stress/ledger.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace retry_guard::stress {

void Faults::Add(const std::string& what) {
  // The first ones tell; the rest is only counted.
  if (count_.fetch_add(1) < 20)
    std::fprintf(stderr, "FAULT %s\n", what.c_str());
}

Record::Record(Plan plan, Faults* faults)
    : plan_(std::move(plan)), faults_(faults), started_(absl::Now()) {}

void Record::Fault(const std::string& what) const {
  faults_->Add(absl::StrCat(what, "\n  ", ToString()));
}

void Record::Attach(grpc::ClientContext* context) {
  absl::MutexLock lock(&context_mu_);
  context_ = context;
  // The moment may have come before the call.
  if (cancelled_) context->TryCancel();
}

void Record::Detach() {
  absl::MutexLock lock(&context_mu_);
  context_ = nullptr;
  detached_ = true;
}

void Record::Cancel() {
  absl::MutexLock lock(&context_mu_);
  if (detached_) return;
  cancelled_ = true;
  if (context_ != nullptr) context_->TryCancel();
}

void Record::AttemptStarted(int number) {
  std::string wrong;
  {
    absl::MutexLock lock(&mu_);
    if (number != static_cast<int>(attempts_.size()) + 1) {
      wrong = absl::StrCat("attempt ", number, " starts after ",
                           attempts_.size(), " others");
    } else if (number > 1 && !attempts_.back().ended) {
      wrong = absl::StrCat("attempt ", number, " starts during another one");
    } else if (number > 1 && delivered_) {
      wrong = absl::StrCat("attempt ", number, " starts after a delivery");
    }
    attempts_.push_back({number, false, grpc::StatusCode::OK, ""});
  }
  if (!wrong.empty()) Fault(wrong);
}

void Record::AttemptEnded(int number, grpc::StatusCode code,
                          std::string message) {
  absl::MutexLock lock(&mu_);
  for (SeenAttempt& attempt : attempts_) {
    if (attempt.number != number) continue;
    attempt.ended = true;
    attempt.code = code;
    attempt.message = std::move(message);
  }
}

std::vector<SeenAttempt> Record::attempts() const {
  absl::MutexLock lock(&mu_);
  return attempts_;
}

void Record::Arrived(int number) {
  const uint64_t bit = uint64_t{1} << (number & 63);
  if ((arrived_.fetch_or(bit) & bit) != 0) {
    Fault(absl::StrCat("attempt ", number, " reaches the server twice"));
  }
  if (plan_.cancel.when == CancelAt::When::kArrival &&
      plan_.cancel.attempt == number) {
    Cancel();
  }
}

void Record::Ending(int number) {
  if (plan_.cancel.when == CancelAt::When::kEnding &&
      plan_.cancel.attempt == number) {
    Cancel();
  }
}

void Record::Delivered() {
  if (delivered_.exchange(true)) return;
  if (plan_.cancel.when == CancelAt::When::kDelivery) Cancel();
}

int Record::arrivals() const { return __builtin_popcountll(arrived_); }

int Record::last_arrival() const {
  const uint64_t arrived = arrived_;
  return arrived == 0 ? 0 : 63 - __builtin_clzll(arrived);
}

std::string Record::ToString() const {
  std::string text = absl::StrCat(plan_.ToString(), "\n  after ",
                                  absl::FormatDuration(absl::Now() - started_),
                                  cancelled_ ? ", cancelled" : "",
                                  delivered_ ? ", delivered" : "",
                                  ", arrivals ", absl::Hex(arrived_.load()));
  for (const SeenAttempt& attempt : attempts()) {
    absl::StrAppend(
        &text, "; a", attempt.number,
        attempt.ended ? absl::StrCat(" -> ", attempt.code, " ", attempt.message)
                      : " runs");
  }
  return text;
}

Ledger::Ledger(uint64_t max_calls, Faults* faults)
    : faults_(faults), attempts_of_ended_(max_calls) {}

void Ledger::Open(const std::shared_ptr<Record>& record) {
  const uint64_t id = record->plan().id;
  Shard& shard = shards_[id % kShards];
  absl::MutexLock lock(&shard.mu);
  shard.records[id] = record;
}

void Ledger::Close(uint64_t id, int attempts) {
  attempts_of_ended_[id] = attempts == 0 ? kUncounted : attempts;
  Shard& shard = shards_[id % kShards];
  absl::MutexLock lock(&shard.mu);
  shard.records.erase(id);
}

std::shared_ptr<Record> Ledger::Find(uint64_t id) const {
  const Shard& shard = shards_[id % kShards];
  absl::MutexLock lock(&shard.mu);
  const auto found = shard.records.find(id);
  return found == shard.records.end() ? nullptr : found->second;
}

void Ledger::ArrivedLate(uint64_t id, int number) {
  const int had =
      id < attempts_of_ended_.size() ? attempts_of_ended_[id].load() : 0;
  if (number <= had) return;
  faults_->Add(absl::StrCat("attempt ", number, " of call ", id,
                            " reaches the server, which ended after ", had));
}

std::vector<std::shared_ptr<Record>> Ledger::open() const {
  std::vector<std::shared_ptr<Record>> all;
  for (const Shard& shard : shards_) {
    absl::MutexLock lock(&shard.mu);
    for (const auto& [id, record] : shard.records) all.push_back(record);
  }
  return all;
}

}  // namespace retry_guard::stress
