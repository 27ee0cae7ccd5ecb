// Where retry_guard answers otherwise than a peer, on purpose.
//
// A divergence is a rule, never a scenario: the replay recognises it by what
// the scenario says (a trailing pushback of zero, a list with an integer code,
// ...), and then checks that *our* rule is what happens. Expectations of the
// tables are never edited.

#ifndef RETRY_GUARD_TESTS_CONFORMANCE_DIVERGENCES_H_
#define RETRY_GUARD_TESTS_CONFORMANCE_DIVERGENCES_H_

#include <string>

namespace retry_guard::conformance {

enum class Rule {
  // Calls.
  kUnaryHeaders,
  kAttemptTimeout,
  kAttemptTimeoutIsRead,
  kUnaryBuffer,
  kDeadlineFit,
  kNeverConnected,
  kRefusedOnce,
  kRefusedCostsToken,
  kSuccessIsOk,
  kHijackedStream,
  kResourceExhausted,
  // Waiting.
  kHintJitter,
  kHintZero,
  kMaxPushback,
  kNoHintClamp,
  kFullJitter,
  kProportionalIsFixed,
  // Reading hints.
  kCanonicalPushback,
  kOnePushback,
  kNegativeRetryInfo,
  kRetryAfterIsSeconds,
  kHttpDateForms,
  kHintsAlwaysRead,
  kBlanksAroundHint,
  kOnlyTheDetails,
  kOnlyRetryAfter,
  // Reading a config.
  kStrictConfig,
  kIntegerCodes,
  kExactDuration,
  kPositiveDuration,
  kUnknownNames,
  kBudgetRange,
  // Budget.
  kTokenComesBackLate,
  kTokenIsLast,
  kTokensHaveNoPrice,
  // Breaker.
  kOneFailureReopens,
  kProbesClose,
  kTimeWindow,
  kJudgedAtFailure,
  kHalfOpenHasNoEnd,
  kLateResults,
  kListedCodesFail,
  kCountersHidden,
};

// What ours is, and why.
std::string ReasonOf(Rule rule);

}  // namespace retry_guard::conformance

#endif  // RETRY_GUARD_TESTS_CONFORMANCE_DIVERGENCES_H_
