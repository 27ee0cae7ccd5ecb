#include "tests/benchmark/policy_benchmark.h"

#include <benchmark/benchmark.h>
#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "retry_guard/call/real_clock.h"
#include "retry_guard/channel.h"
#include "retry_guard/config/service_config.h"
#include "retry_guard/policy/circuit_breaker.h"
#include "retry_guard/policy/decider.h"
#include "retry_guard/policy/retry_budget.h"
#include "retry_guard/testing/echo.grpc.pb.h"

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

void MeasureRejection(benchmark::State& state, const std::string& address) {
  InterceptorOptions options;
  options.service_config_json = kOpensAtOnce;
  const auto channel = CreateChannel(
      address, grpc::InsecureChannelCredentials(), std::move(options));
  if (!channel.ok()) std::abort();
  const auto stub = testing::EchoService::NewStub(*channel);
  const testing::EchoRequest request;
  testing::EchoReply reply;
  {
    grpc::ClientContext context;
    // The server fails this method always.
    if (stub->Idempotent(&context, request, &reply).ok()) std::abort();
  }
  for (auto _ : state) {
    grpc::ClientContext context;
    const grpc::Status status = stub->Idempotent(&context, request, &reply);
    if (status.error_message().find("breaker is open") == std::string::npos) {
      std::abort();
    }
  }
}

}  // namespace

void RegisterPolicyBenchmarks(const std::string& address, int repetitions,
                              double seconds) {
  for (const Part& part : kParts) {
    for (const bool locked : {false, true}) {
      const auto shared = std::make_shared<Shared>();
      for (const int threads : {1, 2, 4}) {
        benchmark::RegisterBenchmark(
            absl::StrCat(part.name, locked ? "/mutex" : "/ours", "/", threads)
                .c_str(),
            [&part, locked, shared](benchmark::State& state) {
              MeasurePart(state, part, locked, shared);
            })
            ->Threads(threads)
            ->UseRealTime()
            ->MinTime(seconds)
            ->Repetitions(repetitions);
      }
    }
  }
  benchmark::RegisterBenchmark(
      "BreakerOpenRejection/guard/1",
      [address](benchmark::State& state) { MeasureRejection(state, address); })
      ->MeasureProcessCPUTime()
      ->MinTime(seconds)
      ->Repetitions(repetitions);
}

std::vector<std::string> PolicyGroups() {
  std::vector<std::string> groups;
  for (const Part& part : kParts) {
    groups.push_back(absl::StrCat(part.name, "/"));
  }
  groups.emplace_back("BreakerOpenRejection/");
  return groups;
}

}  // namespace retry_guard::benchmarks
