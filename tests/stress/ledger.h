// What everybody involved has seen of each call: the books that the model
// audits.

#ifndef RETRY_GUARD_TESTS_STRESS_LEDGER_H_
#define RETRY_GUARD_TESTS_STRESS_LEDGER_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "tests/stress/script.h"

namespace retry_guard::stress {

// Everything that was found wrong. Thread-safe.
class Faults {
 public:
  void Add(const std::string& what);
  int64_t count() const { return count_.load(); }

 private:
  std::atomic<int64_t> count_{0};
};

// An attempt, as an interceptor after ours sees it.
struct SeenAttempt {
  int number = 0;
  bool ended = false;
  grpc::StatusCode code = grpc::StatusCode::OK;
  std::string message;
};

// How the call went, as the application sees it.
struct Result {
  bool has_status = false;  // not if the stream was dropped
  grpc::Status status;
  std::vector<std::string> replies;  // each as it was delivered
  std::string untouched;  // what a unary reply holds if nothing was delivered
  bool dropped = false;
};

// One call that is open. Thread-safe.
class Record {
 public:
  Record(Plan plan, Faults* faults);

  const Plan& plan() const { return plan_; }
  absl::Time started() const { return started_; }

  // The context to cancel, as long as the application has it.
  void Attach(grpc::ClientContext* context);
  void Detach();
  void Cancel();
  bool cancelled() const { return cancelled_.load(); }

  // Where there is an interceptor to tell, after ours.
  void AttemptStarted(int number);
  void AttemptEnded(int number, grpc::StatusCode code, std::string message);
  std::vector<SeenAttempt> attempts() const;

  // The server has got attempt `number`, and is about to end it.
  void Arrived(int number);
  void Ending(int number);
  int arrivals() const;  // how many, and the highest number
  int last_arrival() const;

  // The application has got its first message.
  void Delivered();

  // Settings that change while calls run, as they were when this one began; see
  // Epochs.
  uint64_t switch_epoch = 0;
  uint64_t policy_epoch = 0;

  std::string ToString() const;

 private:
  void Fault(const std::string& what) const;

  const Plan plan_;
  Faults* const faults_;
  const absl::Time started_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> delivered_{false};
  std::atomic<uint64_t> arrived_{0};  // a bit for each number

  mutable absl::Mutex mu_;
  std::vector<SeenAttempt> attempts_ ABSL_GUARDED_BY(mu_);
  absl::Mutex context_mu_;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(context_mu_) = nullptr;
  bool detached_ ABSL_GUARDED_BY(context_mu_) = false;
};

// Finds a call by the number that its metadata carry. Thread-safe.
class Ledger {
 public:
  Ledger(uint64_t max_calls, Faults* faults);

  void Open(const std::shared_ptr<Record>& record);
  // `attempts`: as many as there were; 0 if nobody could count them.
  void Close(uint64_t id, int attempts);

  // Null if it has ended, or never began.
  std::shared_ptr<Record> Find(uint64_t id) const;

  // An attempt that was sent before its call's end may reach the server
  // afterwards; one that the call never had may not.
  void ArrivedLate(uint64_t id, int number);

  std::vector<std::shared_ptr<Record>> open() const;

 private:
  struct Shard {
    mutable absl::Mutex mu;
    std::unordered_map<uint64_t, std::shared_ptr<Record>> records
        ABSL_GUARDED_BY(mu);
  };
  static constexpr int kShards = 64;
  static constexpr uint8_t kUncounted = 255;

  Faults* const faults_;
  std::array<Shard, kShards> shards_;
  std::vector<std::atomic<uint8_t>> attempts_of_ended_;
};

}  // namespace retry_guard::stress

#endif  // RETRY_GUARD_TESTS_STRESS_LEDGER_H_
