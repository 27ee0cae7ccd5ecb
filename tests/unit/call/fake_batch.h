// A batch of a call that there is not: it has the hooks that the test gives it
// and counts what is done with it.

#ifndef RETRY_GUARD_TESTS_UNIT_CALL_FAKE_BATCH_H_
#define RETRY_GUARD_TESTS_UNIT_CALL_FAKE_BATCH_H_

#include <grpcpp/support/interceptor.h>

#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "retry_guard/policy/mutex.h"
#include "tests/unit/call/blank_batch.h"

namespace retry_guard::internal {

using Hook = grpc::experimental::InterceptionHookPoints;

inline grpc::ByteBuffer BytesOf(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

inline std::string TextOf(const grpc::ByteBuffer& bytes) {
  grpc::Slice slice;
  if (!bytes.DumpToSingleSlice(&slice).ok()) return "";
  return std::string(reinterpret_cast<const char*>(slice.begin()),
                     slice.size());
}

// Thread-safe.
class FakeBatch final : public BlankBatch {
 public:
  explicit FakeBatch(std::set<Hook> hooks = {}, const std::string& message = "")
      : hooks_(std::move(hooks)), message_(BytesOf(message)) {}

  // Runs when it is hijacked, or goes on.
  void OnHijack(std::function<void()> run) { on_hijack_ = std::move(run); }
  void OnProceed(std::function<void()> run) { on_proceed_ = std::move(run); }

  int proceeded() const {
    MutexLock lock(mu_);
    return proceeded_;
  }
  bool AwaitProceeded() const {
    MutexLock lock(mu_);
    return went_on_.WaitFor(
        mu_, absl::Seconds(20),
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return proceeded_ > 0; });
  }
  bool hijacked() const { return hijacked_; }
  bool send_failed() const { return send_failed_; }

  bool QueryInterceptionHookPoint(Hook hook) override {
    return hooks_.count(hook) > 0;
  }
  void Proceed() override {
    if (on_proceed_) on_proceed_();
    MutexLock lock(mu_);
    ++proceeded_;
    went_on_.NotifyAll();
  }
  void Hijack() override {
    hijacked_ = true;
    if (on_hijack_) on_hijack_();
  }
  grpc::ByteBuffer* GetSerializedSendMessage() override { return &message_; }
  void FailHijackedSendMessage() override { send_failed_ = true; }

 private:
  const std::set<Hook> hooks_;
  grpc::ByteBuffer message_;
  std::function<void()> on_hijack_;
  std::function<void()> on_proceed_;
  bool hijacked_ = false;
  bool send_failed_ = false;
  mutable Mutex mu_;
  mutable CondVar went_on_;
  int proceeded_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace retry_guard::internal

#endif  // RETRY_GUARD_TESTS_UNIT_CALL_FAKE_BATCH_H_
