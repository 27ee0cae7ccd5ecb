// Load shedding for handlers: works on so many calls at a time and tells the
// rest, in words that every client understands, when to come again.
//
//   retry_guard::ConcurrencyLimiter::Options options;
//   options.max_concurrent = 64;
//   retry_guard::ConcurrencyLimiter limiter(options);
//
//   grpc::Status Orders::Get(grpc::ServerContext* inbound, …) {
//     auto admission = limiter.TryAcquire(inbound);
//     if (!admission.ok()) return admission.status;
//     …  // the place is given back with `admission`
//   }

#ifndef RETRY_GUARD_LIMITER_H_
#define RETRY_GUARD_LIMITER_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <memory>

#include "absl/time/time.h"
#include "retry_guard/policy/clock.h"
#include "retry_guard/policy/concurrency_limit.h"
#include "retry_guard/policy/export.h"

namespace retry_guard {

// Thread-safe. One for all handlers that share what is scarce. Must outlive its
// permits.
class RETRY_GUARD_EXPORT ConcurrencyLimiter {
 public:
  struct Options {
    // Calls that are being worked on or wait for it inside this server; less
    // than 1 is taken as 1.
    int max_concurrent = 100;
    // The longest time that a call is told to stay away; less than a
    // millisecond is taken as one.
    absl::Duration max_delay = absl::Seconds(10);
    // Null: the real one. For tests.
    std::shared_ptr<Clock> clock;
  };

  // The right to work on one call; given back when destroyed, on any thread.
  // Belongs to its call: not for two threads at a time.
  class Permit {
   public:
    Permit() = default;
    Permit(Permit&& other) noexcept;
    Permit& operator=(Permit&& other) noexcept;
    ~Permit();

    // False if it holds no place (any more).
    explicit operator bool() const { return limiter_ != nullptr; }

   private:
    friend class ConcurrencyLimiter;
    Permit(ConcurrencyLimiter* limiter, absl::Time since)
        : limiter_(limiter), since_(since) {}
    void Release();

    ConcurrencyLimiter* limiter_ = nullptr;
    absl::Time since_;
  };

  struct Admission {
    Permit permit;
    grpc::Status status;  // what to answer if there is no permit

    bool ok() const { return static_cast<bool>(permit); }
  };

  explicit ConcurrencyLimiter(Options options);
  ConcurrencyLimiter(const ConcurrencyLimiter&) = delete;
  ConcurrencyLimiter& operator=(const ConcurrencyLimiter&) = delete;

  // A permit; or, when all places are taken, the status of RetryLater
  // (server.h): UNAVAILABLE, with the time to come again in the pushback of
  // `inbound` and in its details. Each call that is turned away is told a time
  // of its own, as far apart as places become free. While `inbound` is being
  // served, and before it is finished.
  Admission TryAcquire(grpc::ServerContextBase* inbound);

  // Places taken right now.
  int in_use() const { return limit_.in_use(); }

 private:
  const std::shared_ptr<Clock> clock_;
  ConcurrencyLimit limit_;
};

}  // namespace retry_guard

#endif  // RETRY_GUARD_LIMITER_H_
