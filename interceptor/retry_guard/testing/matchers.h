// GoogleMock matchers for what a RecordingObserver has heard. The only header
// of retry_guard that needs GoogleMock.

#ifndef RETRY_GUARD_TESTING_MATCHERS_H_
#define RETRY_GUARD_TESTING_MATCHERS_H_

#include <gmock/gmock.h>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "retry_guard/testing/recording_observer.h"

namespace retry_guard::testing {

// A decision to retry.
inline ::testing::Matcher<const RecordedDecision&> Retries() {
  return ::testing::Field("verdict", &RecordedDecision::verdict,
                          Verdict::kRetry);
}

// A decision to retry after `delay`.
inline ::testing::Matcher<const RecordedDecision&> RetriesAfter(
    const ::testing::Matcher<absl::Duration>& delay) {
  return ::testing::AllOf(
      Retries(), ::testing::Field("delay", &RecordedDecision::delay, delay));
}

// The end of a call, for `reason`.
inline ::testing::Matcher<const RecordedDecision&> Returns(Reason reason) {
  return ::testing::AllOf(
      ::testing::Field("verdict", &RecordedDecision::verdict, Verdict::kReturn),
      ::testing::Field("reason", &RecordedDecision::reason, reason));
}

// The end of a call that succeeded.
inline ::testing::Matcher<const RecordedDecision&> Succeeds() {
  return Returns(Reason::kSucceeded);
}

// The end of a call whose status is `code`, for `reason`.
inline ::testing::Matcher<const RecordedDecision&> Returns(
    Reason reason, absl::StatusCode code) {
  return ::testing::AllOf(
      Returns(reason), ::testing::Field("code", &RecordedDecision::code, code));
}

// About attempt number `attempt`, from 1.
inline ::testing::Matcher<const RecordedDecision&> OfAttempt(int attempt) {
  return ::testing::Field("attempt", &RecordedDecision::attempt, attempt);
}

}  // namespace retry_guard::testing

#endif  // RETRY_GUARD_TESTING_MATCHERS_H_
