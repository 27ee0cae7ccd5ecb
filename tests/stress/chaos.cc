#include "tests/stress/chaos.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/stress/client.h"
#include "tests/stress/dice.h"
#include "tests/stress/model.h"
#include "tests/stress/watchdog.h"

namespace retry_guard::stress {
namespace {

// Room in the ledger for the calls that show the recovery.
constexpr uint64_t kCalmCalls = 10'000;

// What may differ between two quiet moments: caches of threads and of gRPC's
// own. A leak of the smallest block by one call in a few shows.
constexpr int64_t kHeapTolerance = 3'000'000;

}  // namespace

Chaos::Chaos(const ChaosOptions& options)
    : options_(options),
      ledger_(options.calls + kCalmCalls, &faults_),
      steady_(options.seed, options.limits, &ledger_, &faults_),
      shaky_(options.seed, options.limits, &ledger_, &faults_),
      middle_(&ledger_, [this](Record& record, grpc::ServerContext* inbound) {
        return MakeCall(record, route(record.plan().route).channel(), inbound);
      }) {
  for (int i = 0; i < kRoutes; ++i) {
    const auto id = static_cast<RouteId>(i);
    const ChaosServer& server = id == RouteId::kShaky ? shaky_ : steady_;
    routes_[i] =
        std::make_unique<Route>(id, server.address(), &ledger_, &faults_);
  }
}

bool Chaos::Run() {
  std::printf("seed %" PRIu64 ", %" PRIu64 " calls, %d threads%s\n",
              options_.seed, options_.calls, options_.threads,
              options_.limits.sync_only ? ", sync only" : "");
  std::fflush(stdout);
  const absl::Time start = absl::Now();
  const Watchdog watchdog(&ledger_, options_.patience);

  MakeCalls(options_.calls / 10, start + options_.time / 10);
  const int64_t heap_early = QuietHeap();
  MakeCalls(options_.calls, start + options_.time);
  const int64_t heap_late = QuietHeap();
  Recover();
  const absl::Duration took = absl::Now() - start;
  for (const auto& route : routes_) route->Audit(took);

  report_.Print();
  std::printf("  %" PRId64 " attempts arrived; %s; heap %" PRId64
              " at a tenth, %" PRId64 " at the end\n",
              steady_.arrivals() + shaky_.arrivals(),
              absl::FormatDuration(took).c_str(), heap_early, heap_late);
  if (heap_late > heap_early + kHeapTolerance) {
    faults_.Add(absl::StrCat("the heap grows by ", heap_late - heap_early));
  }
  std::printf("%" PRId64 " faults\n", faults_.count());
  return faults_.count() == 0;
}

void Chaos::MakeCalls(uint64_t last, absl::Time until) {
  std::atomic<bool> stop{false};
  std::thread disturber([&] { Disturb(&stop); });
  std::vector<std::thread> workers;
  workers.reserve(options_.threads);
  for (int i = 0; i < options_.threads; ++i) {
    workers.emplace_back([this, last, until] {
      while (absl::Now() < until) {
        uint64_t id = next_.load();
        do {
          if (id >= last) return;
        } while (!next_.compare_exchange_weak(id, id + 1));
        MakeOneCall(id);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  stop = true;
  disturber.join();
}

void Chaos::MakeOneCall(uint64_t id) {
  const auto record = std::make_shared<Record>(
      MakePlan(options_.seed, id, options_.limits), &faults_);
  const Plan& plan = record->plan();
  Route& way = route(plan.route);
  record->policy_epoch = way.policy_epoch();
  record->switch_epoch = way.switch_epoch();
  ledger_.Open(record);
  if (plan.cancel.when == CancelAt::When::kTime) {
    moments_.CancelAt(record->started() + plan.cancel.after, record);
  }

  std::optional<Result> result;
  if (plan.parent == Parent::kNone) {
    result = MakeCall(*record, way.channel(), nullptr);
  } else {
    result = middle_.Relay(*record);
  }
  const absl::Time ended = absl::Now();
  const int attempts = static_cast<int>(record->attempts().size());
  ledger_.Close(id, attempts);

  if (!result.has_value()) return;
  if (result->dropped) ++way.tally().dropped;
  report_.Count(plan, *result, std::max(attempts, record->last_arrival()));
  const int max_attempts =
      way.MaxAttempts(record->policy_epoch, way.policy_epoch());
  for (const std::string& wrong :
       Judge(*record, *result, way.traits(), max_attempts, ended)) {
    faults_.Add(absl::StrCat(wrong, "\n  ", record->ToString(), "\n  ended ",
                             result->status.error_code(), " ",
                             result->status.error_message(), ", ",
                             result->replies.size(), " replies"));
  }
}

void Chaos::Disturb(const std::atomic<bool>* stop) {
  Dice dice(options_.seed, next_.load(), 77);
  while (!*stop) {
    absl::SleepFor(absl::Milliseconds(dice.Between(1, 40)));
    switch (dice.Between(0, 5)) {
      case 0:
        shaky_.Restart();
        break;
      case 1:
      case 2:
        route(RouteId::kGenerous).Reload(/*bad=*/dice.Percent(20));
        break;
      default: {
        // Off for a while, on for a longer one.
        const bool on = dice.Percent(70);
        route(RouteId::kGenerous).Switch(on);
        route(RouteId::kBudgeted).Switch(on);
        break;
      }
    }
  }
  route(RouteId::kGenerous).Switch(true);
  route(RouteId::kBudgeted).Switch(true);
}

void Chaos::Recover() {
  steady_.Calm();
  shaky_.Calm();
  uint64_t id = options_.calls;
  for (const auto& way : routes_) {
    const absl::Time give_up = absl::Now() + absl::Seconds(20);
    grpc::Status status(grpc::StatusCode::UNKNOWN, "");
    // As many in a row as probes are needed to close a breaker, and one more.
    for (int well = 0; well < 3;) {
      if (absl::Now() > give_up || id >= options_.calls + kCalmCalls) {
        faults_.Add(absl::StrCat(
            "the ", RouteName(way->id()),
            " channel does not recover: ", status.error_message()));
        break;
      }
      Plan plan = CalmPlan(options_.seed, id++);
      plan.route = way->id();
      const auto record = std::make_shared<Record>(plan, &faults_);
      ledger_.Open(record);
      const Result result = MakeCall(*record, way->channel(), nullptr);
      ledger_.Close(plan.id, static_cast<int>(record->attempts().size()));
      status = result.status;
      well = status.ok() ? well + 1 : 0;
      // An open breaker wants its time.
      if (!status.ok()) absl::SleepFor(absl::Milliseconds(5));
    }
  }
}

int64_t Chaos::QuietHeap() {
  // What gRPC still has to put away, it does soon: the least of a few looks.
  int64_t least = HeapInUse();
  for (int i = 0; i < 20; ++i) {
    absl::SleepFor(absl::Milliseconds(50));
    least = std::min(least, HeapInUse());
  }
  return least;
}

}  // namespace retry_guard::stress
