// What goes wrong at the server, with the first attempt that it gets. It waits
// for events, not for a time, so that each run goes the same way.

#ifndef EXAMPLES_IDEMPOTENT_CHARGE_TROUBLE_H_
#define EXAMPLES_IDEMPOTENT_CHARGE_TROUBLE_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/support/status.h"

namespace charge {

// Thread-safe.
class Trouble {
 public:
  enum class Kind {
    kNone,
    kSilentAfterCharge,  // the charge is made, its answer never comes
    kFailsAfterCharge,   // the charge is made, the answer is UNAVAILABLE
    kSlow,               // the charge is made only when a twin has come
  };

  explicit Trouble(Kind kind) : kind_(kind) {}

  // Where the server is with a request. The first may be held up here...
  void BeforeCharge();
  void AfterCharge();
  // ... or here: what to answer instead of OK.
  grpc::Status Answer();
  // A twin is turned away. When it hears of that, the charge is made.
  void TwinCame();

  // The client's call is over. Nothing is held up any more.
  void End();

 private:
  bool TwinCameOrOver() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return twin_came_ || over_;
  }
  bool ChargedOrOver() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return charged_ || over_;
  }

  const Kind kind_;
  absl::Mutex mu_;
  bool first_ ABSL_GUARDED_BY(mu_) = true;
  bool twin_came_ ABSL_GUARDED_BY(mu_) = false;
  bool charged_ ABSL_GUARDED_BY(mu_) = false;
  bool over_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace charge

#endif  // EXAMPLES_IDEMPOTENT_CHARGE_TROUBLE_H_
