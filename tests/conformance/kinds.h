// How each kind of scenario is replayed. One file per kind, each against the
// real parts of the library.

#ifndef RETRY_GUARD_TESTS_CONFORMANCE_KINDS_H_
#define RETRY_GUARD_TESTS_CONFORMANCE_KINDS_H_

#include <string>

#include "tests/conformance/fields.h"
#include "tests/conformance/report.h"
#include "tests/conformance/table.h"

namespace retry_guard::conformance {

// Reads what it needs, asks Fields::AllRead, then replays and checks.
using Replay = void (*)(const Table& table, const Fields& scenario,
                        Report& report);

// Null for a kind that is not known.
Replay ReplayOf(const std::string& kind);

// config_kind.cc
void ReplayConfig(const Table&, const Fields&, Report&);
// backoff_kind.cc
void ReplayBackoff(const Table&, const Fields&, Report&);
// duration_kind.cc: `parse` with input.json or input.json_raw
void ReplayDuration(const Table&, const Fields&, Report&);
// names_kind.cc: lists of conditions as Envoy and xDS have them
void ReplayConditions(const Fields&, const char* key, Report&);
void ReplayMapping(const Table&, const Fields&, Report&);
// generated_status_kind.cc: statuses that gRPC makes by itself
void ReplayGeneratedStatus(const Fields&, Report&);
// hint_kind.cc: `parse` of what a server says
void ReplayHint(const Table&, const Fields&, Report&);
void ReplayRetryAfter(const Table&, const Fields&, Report&);
// throttle_kind.cc
void ReplayThrottleSequence(const Table&, const Fields&, Report&);
void ReplayThrottleDecision(const Table&, const Fields&, Report&);
void ReplayThrottleCalls(const Table&, const Fields&, Report&);
void ReplayTokenBucket(const Table&, const Fields&, Report&);
// budget_kind.cc
void ReplayBudget(const Table&, const Fields&, Report&);
// quota_kind.cc
void ReplayQuota(const Table&, const Fields&, Report&);
// breaker_kind.cc
void ReplayBreaker(const Table&, const Fields&, Report&);
void ReplayBreakerDecision(const Table&, const Fields&, Report&);
// classification_kind.cc
void ReplayClassification(const Table&, const Fields&, Report&);
// retry_call_kind.cc
void ReplayCall(const Table&, const Fields&, Report&);
// rule_kind.cc
void ReplayRule(const Table&, const Fields&, Report&);
// property_kind.cc
void ReplayProperty(const Table&, const Fields&, Report&);
// interceptor_kind.cc
void ReplayInterceptors(const Table&, const Fields&, Report&);
// simulation_kind.cc
void ReplaySimulation(const Table&, const Fields&, Report&);
void ReplaySimulationCell(const Table&, const Fields&, Report&);
void ReplaySimulationSeries(const Table&, const Fields&, Report&);

}  // namespace retry_guard::conformance

#endif  // RETRY_GUARD_TESTS_CONFORMANCE_KINDS_H_
