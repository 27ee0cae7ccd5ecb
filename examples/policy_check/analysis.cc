#include "analysis.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "retry_guard/policy/absl_view.h"
#include "retry_guard/policy/backoff.h"

namespace policy_check {
namespace {

using absl::StatusCode;
using retry_guard::AbslView;
using retry_guard::Idempotency;
using retry_guard::Jitter;
using retry_guard::Layer;
using retry_guard::MethodPolicy;
using retry_guard::ServiceConfig;
using retry_guard::StatusCodeName;
using retry_guard::StatusCodeSet;

// What gRPC core stops at, whatever a policy says.
constexpr int kMostAttemptsOfCore = 5;

std::vector<StatusCode> Codes(const StatusCodeSet& set) {
  std::vector<StatusCode> codes;
  for (int code = 1; code <= 16; ++code) {
    if (set.Contains(static_cast<StatusCode>(code))) {
      codes.push_back(static_cast<StatusCode>(code));
    }
  }
  return codes;
}

std::string Name(StatusCode code) { return std::string(StatusCodeName(code)); }

std::string JitterName(Jitter jitter) {
  switch (jitter) {
    case Jitter::kFull:
      return "FULL";
    case Jitter::kEqual:
      return "EQUAL";
    case Jitter::kDecorrelated:
      return "DECORRELATED";
    case Jitter::kProportional:
      return "PROPORTIONAL";
    case Jitter::kNone:
      return "NONE";
  }
  return "?";
}

std::vector<absl::Duration> LongestWaits(const MethodPolicy& policy) {
  std::vector<absl::Duration> waits;
  absl::Duration previous = policy.backoff.initial;
  for (int retry = 1; retry < policy.max_attempts; ++retry) {
    // The upper end of every jitter is what a draw of (almost) 1 gives.
    previous = retry_guard::BackoffDelay(policy.backoff, retry, previous, 1);
    waits.push_back(previous);
  }
  return waits;
}

std::string RepeatWords(const MethodPolicy& policy) {
  if (policy.idempotency == Idempotency::kNonIdempotent) {
    return "not safe to repeat: only if the server asks for it, or was never "
           "reached";
  }
  if (policy.idempotency == Idempotency::kIdempotent ||
      policy.idempotency_key) {
    return "safe to repeat: any retryable failure, timeouts of attempts too";
  }
  if (!policy.has_retry_policy) {
    return "no retryPolicy: only if the proto says that the method is "
           "idempotent, the server asks for it, or was never reached";
  }
  return "the listed codes; timeouts of attempts only if the proto says that "
         "the method is idempotent, or DEADLINE_EXCEEDED is listed";
}

Amplification Amplify(int attempts) {
  Amplification a;
  a.this_layer = attempts;
  a.two_layers_without_marker = attempts * attempts;
  a.three_layers_without_marker = attempts * attempts * attempts;
  a.any_layers_with_marker = attempts;
  return a;
}

bool MayRetry(const MethodPolicy& policy) {
  return policy.max_attempts > 1 && policy.layer != Layer::kNever;
}

void WarnOfDeadline(const MethodPolicy& policy, MethodAnalysis& analysis) {
  auto& warnings = analysis.warnings;
  if (!analysis.deadline.has_value()) {
    warnings.push_back(
        "retries without a deadline: set \"timeout\", or a deadline on every "
        "call");
    return;
  }
  const absl::Duration deadline = *analysis.deadline;
  if (policy.backoff.max > deadline) {
    warnings.push_back(absl::StrCat(
        "maxBackoff (", absl::FormatDuration(policy.backoff.max),
        ") is longer than the deadline (", absl::FormatDuration(deadline),
        "): a wait that long is never made"));
  }
  if (policy.per_attempt_timeout != absl::InfiniteDuration() &&
      policy.per_attempt_timeout >= deadline) {
    warnings.push_back(absl::StrCat(
        "perAttemptTimeout (", absl::FormatDuration(policy.per_attempt_timeout),
        ") is not shorter than the deadline (", absl::FormatDuration(deadline),
        "): an attempt that hangs is never repeated"));
  }
}

void WarnOfCodes(const MethodPolicy& policy, const StatusCodeSet& elsewhere,
                 MethodAnalysis& analysis) {
  auto& warnings = analysis.warnings;
  if (!policy.has_retry_policy) return;
  if (policy.idempotency == Idempotency::kNonIdempotent) {
    warnings.push_back(
        absl::StrCat("NON_IDEMPOTENT, but lists ",
                     absl::StrJoin(analysis.retried_codes, ", "),
                     ": these are not retried unless the server asks for it"));
  } else if (policy.idempotency == Idempotency::kFromProto &&
             !policy.idempotency_key) {
    // The request may have been executed when one of these comes back.
    std::vector<std::string> ambiguous;
    for (StatusCode code :
         {StatusCode::kCancelled, StatusCode::kUnknown,
          StatusCode::kDeadlineExceeded, StatusCode::kInternal}) {
      if (policy.retryable_codes.Contains(code)) {
        ambiguous.push_back(Name(code));
      }
    }
    if (!ambiguous.empty()) {
      warnings.push_back(absl::StrCat(
          absl::StrJoin(ambiguous, ", "),
          " may come back after the request was executed, and nothing here "
          "says that the method is idempotent: say so, or take them out"));
    }
  }
  std::vector<std::string> unlisted;
  for (StatusCode code : Codes(elsewhere)) {
    if (!policy.retryable_codes.Contains(code)) unlisted.push_back(Name(code));
  }
  if (!unlisted.empty() && policy.layer != Layer::kNever) {
    warnings.push_back(absl::StrCat(
        absl::StrJoin(unlisted, ", "),
        " not listed: if a layer below answers so, it leaves the retry to "
        "this one, and nobody retries"));
  }
}

void WarnOfCore(const MethodPolicy& policy, MethodAnalysis& analysis) {
  auto& warnings = analysis.warnings;
  if (!policy.has_retry_policy) {
    if (policy.max_attempts > 1) {
      warnings.push_back(
          "gRPC core ignores this, because there is no retryPolicy: clients "
          "without retry_guard do not retry");
    }
    return;
  }
  if (policy.max_attempts > kMostAttemptsOfCore) {
    warnings.push_back(absl::StrCat(
        "gRPC core ignores retryGuard.maxAttempts: clients without retry_guard "
        "stop after ",
        kMostAttemptsOfCore, " attempts"));
  }
  if (policy.max_attempts == 1) {
    warnings.push_back(
        "gRPC core ignores retryGuard.maxAttempts: clients without retry_guard "
        "still retry by the retryPolicy");
  }
}

MethodAnalysis AnalyseMethod(const std::string& name,
                             const MethodPolicy& policy,
                             std::optional<absl::Duration> timeout,
                             const StatusCodeSet& elsewhere) {
  MethodAnalysis analysis;
  analysis.name = name;
  for (StatusCode code : Codes(policy.retryable_codes)) {
    analysis.retried_codes.push_back(Name(code));
  }
  analysis.repeat = RepeatWords(policy);
  analysis.max_attempts = MayRetry(policy) ? policy.max_attempts : 1;
  analysis.jitter = JitterName(policy.backoff.jitter);
  if (MayRetry(policy)) analysis.ladder = LongestWaits(policy);
  analysis.deadline = timeout;
  if (policy.timeout.has_value()) {
    analysis.deadline =
        std::min(*policy.timeout, timeout.value_or(absl::InfiniteDuration()));
  }
  analysis.worst_case = policy.per_attempt_timeout * analysis.max_attempts;
  for (absl::Duration wait : analysis.ladder) analysis.worst_case += wait;
  analysis.worst_case_with_deadline =
      std::min(analysis.worst_case,
               analysis.deadline.value_or(absl::InfiniteDuration()));
  analysis.longest_hinted_wait =
      policy.pushback.max_wait * (1 + policy.pushback.jitter);
  analysis.amplification = Amplify(analysis.max_attempts);
  if (MayRetry(policy)) {
    WarnOfDeadline(policy, analysis);
    WarnOfCodes(policy, elsewhere, analysis);
    WarnOfCore(policy, analysis);
  }
  return analysis;
}

std::string BudgetWords(const retry_guard::GuardPolicy& guard) {
  const auto& budget = guard.budget;
  std::string words = absl::StrFormat(
      "retries in any %s <= %d + %g x calls: at most %gx the load in the long "
      "run, plus %d",
      absl::FormatDuration(budget.window), budget.min_retries, budget.ratio,
      1 + budget.ratio, budget.min_retries);
  if (budget.max_retries.has_value()) {
    absl::StrAppendFormat(&words, "; never more than %d per %s",
                          *budget.max_retries,
                          absl::FormatDuration(budget.max_retries_window));
  }
  if (guard.throttle.has_value()) {
    absl::StrAppendFormat(
        &words, "; and while more than half of %g throttle tokens are left",
        static_cast<double>(guard.throttle->max_milli_tokens) / 1000);
  }
  return words;
}

std::string BreakerWords(const retry_guard::BreakerPolicy& breaker) {
  if (!breaker.enabled()) return "off";
  std::vector<std::string> rules;
  if (breaker.failure_rate > 0) {
    rules.push_back(absl::StrFormat(
        "%g %% of at least %d attempts in %s fail", breaker.failure_rate * 100,
        breaker.min_requests, absl::FormatDuration(breaker.window)));
  }
  if (breaker.consecutive_failures > 0) {
    rules.push_back(
        absl::StrFormat("%d fail in a row", breaker.consecutive_failures));
  }
  return absl::StrFormat("opens when %s, for %s to %s",
                         absl::StrJoin(rules, ", or "),
                         absl::FormatDuration(breaker.open_for),
                         absl::FormatDuration(breaker.max_open_for));
}

// What some method of this file expects from below; UNAVAILABLE anyway, since
// that is what a breaker answers.
StatusCodeSet CodesOfAll(const ServiceConfig& config) {
  StatusCodeSet all = {StatusCode::kUnavailable};
  for (const std::string& name : config.names()) {
    for (StatusCode code : Codes(config.ForMethod(name).retryable_codes)) {
      all.Add(code);
    }
  }
  return all;
}

}  // namespace

Analysis Analyse(const ServiceConfig& config,
                 std::optional<std::string_view> only,
                 std::optional<absl::Duration> timeout) {
  Analysis analysis;
  const StatusCodeSet all = CodesOfAll(config);
  std::vector<std::string> names;
  if (only.has_value()) {
    names.emplace_back(*only);
  } else {
    names = config.names();
    std::sort(names.begin(), names.end());
    if (names.empty()) names.emplace_back("");
  }
  for (const std::string& name : names) {
    analysis.methods.push_back(
        AnalyseMethod(name, config.ForMethod(name), timeout, all));
  }
  analysis.budget = BudgetWords(config.guard());
  analysis.breaker = BreakerWords(config.guard().breaker);
  analysis.warnings = config.warnings();
  return analysis;
}

}  // namespace policy_check
