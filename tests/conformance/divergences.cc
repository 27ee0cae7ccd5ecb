#include "tests/conformance/divergences.h"

namespace retry_guard::conformance {

std::string ReasonOf(Rule rule) {
  switch (rule) {
    case Rule::kUnaryHeaders:
      return "unary-headers: a blocking or callback caller sees nothing before "
             "the end, so a unary failure after headers or a message is "
             "retried; a reactor's call commits at headers";
    case Rule::kAttemptTimeout:
      return "attempt-timeout: the outcome of an attempt that timed out is "
             "unknown; it ends as DEADLINE_EXCEEDED, and is repeated only if "
             "the method is idempotent or lists that code";
    case Rule::kAttemptTimeoutIsRead:
      return "attempt-timeout-is-read: perAttemptRecvTimeout is read always, "
             "not only when an experiment is on";
    case Rule::kUnaryBuffer:
      return "unary-buffer: a unary request is held for the caller anyway; the "
             "buffer limit is for streams";
    case Rule::kDeadlineFit:
      return "deadline-fit: a retry that cannot fit the deadline is refused at "
             "once, with the server's own status";
    case Rule::kNeverConnected:
      return "never-connected: an attempt without a connection is an attempt: "
             "it backs off, is numbered, and ends with maxAttempts";
    case Rule::kRefusedOnce:
      return "refused-once: of all attempts of a call the first one that the "
             "peer refused is sent again at once, numbered like any attempt, "
             "if "
             "its code is retried at all; further refusals are retries by "
             "policy";
    case Rule::kRefusedCostsToken:
      return "refused-costs-token: a refused attempt has failed, for budget "
             "and throttle too";
    case Rule::kSuccessIsOk:
      return "success-is-ok: a success for the bucket is an attempt that ended "
             "OK; headers alone are none";
    case Rule::kHijackedStream:
      return "hijacked-stream: of an attempt that another interceptor answers "
             "itself nobody can tell whether it has headers; a stream commits "
             "by it";
    case Rule::kResourceExhausted:
      return "resource-exhausted: RESOURCE_EXHAUSTED that is not listed is "
             "retried if the server itself says when";
    case Rule::kHintJitter:
      return "hint-jitter: a hint is stretched by U[1, 1 + pushbackJitter], "
             "never shortened";
    case Rule::kHintZero:
      return "hint-zero: a hint of zero waits U[0, initialBackoff], since a "
             "herd that is told \"now\" must not come back as one";
    case Rule::kMaxPushback:
      return "max-pushback: a hint longer than maxPushback (60 s) stops";
    case Rule::kNoHintClamp:
      return "no-hint-clamp: a hint is never shortened, whatever our own "
             "backoff or its cap";
    case Rule::kFullJitter:
      return "full-jitter: the jitter is FULL unless the method asks for "
             "PROPORTIONAL, which is the peer's";
    case Rule::kProportionalIsFixed:
      return "proportional-is-fixed: PROPORTIONAL is +-20 % and takes no other "
             "width";
    case Rule::kCanonicalPushback:
      return "canonical-pushback: a pushback with superfluous zeros means stop "
             "(gRFC A6 leaves it open)";
    case Rule::kOnePushback:
      return "one-pushback: two pushbacks mean stop, but gRPC C++ hands on the "
             "last of them only, and that is obeyed";
    case Rule::kNegativeRetryInfo:
      return "negative-retry-info: a negative RetryInfo is ignored";
    case Rule::kRetryAfterIsSeconds:
      return "retry-after-is-seconds: retry-after is seconds or an HTTP date "
             "as in RFC 9110, never a point in time as a number";
    case Rule::kHttpDateForms:
      return "http-date-forms: dates are read in the three forms of RFC 9110 "
             "(two-digit day, GMT), other spellings are ignored";
    case Rule::kHintsAlwaysRead:
      return "hints-always-read: a hint is read whatever the code it came "
             "with, seconds and dates alike; no switch turns it off";
    case Rule::kBlanksAroundHint:
      return "blanks-around-hint: blanks are not part of a hint; such a value "
             "is ignored";
    case Rule::kOnlyTheDetails:
      return "only-the-details: of what a server says in words or as its own "
             "reason nothing is read, only RetryInfo";
    case Rule::kOnlyRetryAfter:
      return "only-retry-after: of the headers that proxies send only "
             "retry-after is read";
    case Rule::kStrictConfig:
      return "strict-config: inside retryPolicy and retryThrottling unknown "
             "keys, OK as a code, empty lists, values out of range and "
             "maxBackoff below initialBackoff are errors";
    case Rule::kIntegerCodes:
      return "integer-codes: codes may be integers or names in any case, and "
             "only the element that is wrong is reported";
    case Rule::kExactDuration:
      return "exact-duration: a duration is held exactly, not cut to 64-bit "
             "nanoseconds";
    case Rule::kPositiveDuration:
      return "positive-duration: a backoff of zero is an error";
    case Rule::kUnknownNames:
      return "unknown-names: an unknown status code is an error, not left out";
    case Rule::kBudgetRange:
      return "budget-range: ratio is 0 to 1, the window any time from 1 ms on";
    case Rule::kTokenComesBackLate:
      return "token-comes-back-late: a token comes back up to window / 64 "
             "after it should, so that the bound holds exactly";
    case Rule::kTokenIsLast:
      return "token-is-last: the token is taken last, after delay and "
             "deadline, so that no other refusal costs one";
    case Rule::kTokensHaveNoPrice:
      return "tokens-have-no-price: every retry costs one token, and tokens "
             "come back with time, not by success; decisions and delays are "
             "those of the peer while its quota has enough";
    case Rule::kOneFailureReopens:
      return "one-failure-reopens: one failed probe opens the breaker again";
    case Rule::kProbesClose:
      return "probes-close: as many probes run at a time as successes close "
             "the breaker";
    case Rule::kTimeWindow:
      return "time-window: the failure rate is over a sliding window of time, "
             "not over the last n calls, and not over fixed intervals";
    case Rule::kJudgedAtFailure:
      return "judged-at-failure: only a failure opens the breaker, never the "
             "success that completes the minimum";
    case Rule::kHalfOpenHasNoEnd:
      return "half-open-has-no-end: half-open does not time out; a probe that "
             "hangs loses its slot to the next one";
    case Rule::kLateResults:
      return "late-results: a result that comes after the breaker has changed "
             "its state changes nothing and is not counted";
    case Rule::kListedCodesFail:
      return "listed-codes-fail: only failureStatusCodes are failures, not "
             "every error";
    case Rule::kCountersHidden:
      return "counters-hidden: the breaker shows its state and when the next "
             "probe is due, not its counters; the states are those of the peer";
  }
  return "?";
}

}  // namespace retry_guard::conformance
