#include "tests/benchmark/policy_benchmark.h"

#include <benchmark/benchmark.h>
#include <grpcpp/grpcpp.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "retry_guard/call/real_clock.h"
#include "retry_guard/channel.h"
#include "retry_guard/config/service_config.h"
#include "retry_guard/policy/circuit_breaker.h"
#include "retry_guard/policy/decider.h"
#include "retry_guard/policy/retry_budget.h"
#include "retry_guard/testing/echo.grpc.pb.h"
#include "tests/benchmark/cpu_time.h"

namespace retry_guard::benchmarks {
namespace {

// What the channels of one guard share.
struct Shared {
  RetryBudget budget{BudgetPolicy(), std::nullopt};
  CircuitBreaker breaker{BreakerPolicy()};
  std::shared_ptr<const ServiceConfig> config = ServiceConfig::Default();
  std::mutex mu;
};

void Take(Shared& shared, absl::Time now) {
  benchmark::DoNotOptimize(shared.budget.Take(now));
}

void PermitAndSettle(Shared& shared, absl::Time now) {
  CircuitBreaker::Admission admission = shared.breaker.AdmitFirst(now);
  admission.permit.Settle(CircuitBreaker::Result::kSuccess, now, 0);
}

void HappyPath(Shared& shared, absl::Time now) {
  shared.budget.CountCall(now);
  PermitAndSettle(shared, now);
}

void CallWithRetry(Shared& shared, absl::Time now) {
  HappyPath(shared, now);
  Take(shared, now);
}

void Decide(Shared& shared, absl::Time now) {
  static const MethodPolicy policy;
  CallTerms terms;
  terms.policy = &policy;
  terms.repeat = Repeat::kSafe;
  CallProgress progress;
  progress.attempts = 1;
  Outcome outcome;
  outcome.code = absl::StatusCode::kUnavailable;
  AttemptEnd end;
  end.outcome = &outcome;
  benchmark::DoNotOptimize(
      DecideAfterAttempt(terms, progress, end, shared.budget, now, 0.5));
}

void LookUpMethod(Shared& shared, absl::Time /*now*/) {
  benchmark::DoNotOptimize(
      &shared.config->ForMethod("/retry_guard.testing.EchoService/Unary"));
}

struct Part {
  const char* name;
  void (*run)(Shared&, absl::Time);
};

constexpr int kThreads[] = {1, 2, 4};

constexpr Part kParts[] = {
    {"BudgetTake", Take},     {"BreakerPermitAndSettle", PermitAndSettle},
    {"HappyPath", HappyPath}, {"CallWithRetry", CallWithRetry},
    {"Decide", Decide},       {"MethodLookup", LookUpMethod},
};

// Time moves on as it does in a busy process: by a microsecond a call.
void MeasurePart(benchmark::State& state, const Part& part, bool locked,
                 const std::shared_ptr<Shared>& shared) {
  absl::Time now = internal::RealClock()->Now();
  for (auto _ : state) {
    now += absl::Microseconds(1);
    if (locked) {
      const std::lock_guard<std::mutex> lock(shared->mu);
      part.run(*shared, now);
    } else {
      part.run(*shared, now);
    }
  }
}

// Its first call opens the breaker for an hour.
constexpr char kOpensAtOnce[] = R"({"retryGuard": {"breaker": {
  "consecutiveFailures": 1, "openFor": "3600s", "maxOpenFor": "3600s"}}})";

// A channel whose breaker is open, for all threads.
class Rejecting {
 public:
  explicit Rejecting(const std::string& address) {
    InterceptorOptions options;
    options.service_config_json = kOpensAtOnce;
    const auto channel = CreateChannel(
        address, grpc::InsecureChannelCredentials(), std::move(options));
    if (!channel.ok()) std::abort();
    stub_ = testing::EchoService::NewStub(*channel);
    // The server fails this method always.
    if (Call().ok()) std::abort();
  }

  void Measure(benchmark::State& state, bool locked) {
    const double before = CpuMicros();
    for (auto _ : state) {
      std::unique_lock<std::mutex> lock(mu_, std::defer_lock);
      if (locked) lock.lock();
      const grpc::Status status = Call();
      if (status.error_message().find("breaker is open") == std::string::npos) {
        std::abort();
      }
    }
    if (state.threads() > 1) return;  // each would count that of all
    state.counters["cpu_us"] =
        (CpuMicros() - before) / static_cast<double>(state.iterations());
  }

 private:
  grpc::Status Call() const {
    const testing::EchoRequest request;
    testing::EchoReply reply;
    grpc::ClientContext context;
    return stub_->Idempotent(&context, request, &reply);
  }

  std::unique_ptr<testing::EchoService::Stub> stub_;
  std::mutex mu_;
};

constexpr char kRejection[] = "BreakerOpenRejection";

std::string CaseName(const char* what, bool locked, int threads) {
  return absl::StrCat(what, locked ? "/mutex/" : "/ours/", threads);
}

}  // namespace

void RegisterPolicyBenchmarks(const std::string& address, int repetitions,
                              double seconds) {
  const auto add = [&](const char* what, bool locked, auto measure) {
    for (const int threads : kThreads) {
      benchmark::RegisterBenchmark(CaseName(what, locked, threads).c_str(),
                                   measure)
          ->Threads(threads)
          ->UseRealTime()
          ->MinTime(seconds)
          ->Repetitions(repetitions);
    }
  };
  const auto rejecting = std::make_shared<Rejecting>(address);
  for (const bool locked : {false, true}) {
    for (const Part& part : kParts) {
      add(part.name, locked,
          [&part, locked,
           shared = std::make_shared<Shared>()](benchmark::State& state) {
            MeasurePart(state, part, locked, shared);
          });
    }
    add(kRejection, locked, [rejecting, locked](benchmark::State& state) {
      rejecting->Measure(state, locked);
    });
  }
}

std::vector<std::string> PolicyGroups() {
  std::vector<std::string> groups;
  for (const Part& part : kParts) {
    groups.push_back(absl::StrCat(part.name, "/"));
  }
  groups.push_back(absl::StrCat(kRejection, "/"));
  return groups;
}

void PrintPolicyTable(const Collector& collected, std::ostream& out) {
  if (collected.empty()) return;
  out << "\nns per call on 1, 2 and 4 threads     ours                   "
         "        under one mutex         2 threads / 1\n";
  const auto print = [&](const char* what) {
    const auto nanos = [&](bool locked, int threads) {
      return collected.MedianNanos(CaseName(what, locked, threads));
    };
    if (std::isnan(nanos(false, 1))) return;
    out << absl::StreamFormat("%-28s", what);
    for (const bool locked : {false, true}) {
      out << "  ";
      for (const int threads : kThreads) {
        out << absl::StreamFormat("%9.1f", nanos(locked, threads));
      }
    }
    out << absl::StreamFormat("   %5.2f\n", nanos(false, 1) / nanos(false, 2));
  };
  for (const Part& part : kParts) print(part.name);
  print(kRejection);
  const double rejection =
      collected.Median(CaseName(kRejection, false, 1), "cpu_us");
  const double bare = collected.Median("UnarySync/bare/1/100", "cpu_us");
  if (std::isnan(rejection) || std::isnan(bare)) return;
  out << absl::StreamFormat(
      "\nrefused by an open breaker: %.2f us of CPU, %.3f of a bare call's\n",
      rejection, rejection / bare);
}

}  // namespace retry_guard::benchmarks
