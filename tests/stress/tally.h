// What one route has seen in all, counted from outside the library: by an
// interceptor before ours, one after ours, and an observer.

#ifndef RETRY_GUARD_TESTS_STRESS_TALLY_H_
#define RETRY_GUARD_TESTS_STRESS_TALLY_H_

#include <grpcpp/support/client_interceptor.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "retry_guard/guard.h"
#include "retry_guard/observer.h"
#include "tests/stress/ledger.h"

namespace retry_guard::stress {

struct Tally {
  std::atomic<int64_t> begun{0};    // calls that came to send their start
  std::atomic<int64_t> started{0};  // attempts
  std::atomic<int64_t> returns{0};  // last decisions
  std::atomic<int64_t> retries{0};  // decided
  std::atomic<int64_t> reports{0};  // of attempts that have ended
  std::atomic<int64_t> dropped{0};  // streams without Finish
  // Odd: the kill switch is off, and has been all the while.
  std::atomic<uint64_t> switch_epoch{0};
};

using ClientFactory = grpc::experimental::ClientInterceptorFactoryInterface;

// Before ours: sees each call once.
std::unique_ptr<ClientFactory> CountCalls(std::shared_ptr<Tally> tally);

// After ours: sees each attempt as a call, and tells its record.
std::unique_ptr<ClientFactory> WatchAttempts(std::shared_ptr<Tally> tally,
                                             Ledger* ledger, Faults* faults);

// Counts; now and then takes a snapshot of `guard`, and throws.
std::shared_ptr<Observer> CountDecisions(std::shared_ptr<Tally> tally,
                                         std::weak_ptr<Guard> guard);

}  // namespace retry_guard::stress

#endif  // RETRY_GUARD_TESTS_STRESS_TALLY_H_
