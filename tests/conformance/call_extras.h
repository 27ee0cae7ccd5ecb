// Scenarios of calls that are about more than attempts and the final status.

#ifndef RETRY_GUARD_TESTS_CONFORMANCE_CALL_EXTRAS_H_
#define RETRY_GUARD_TESTS_CONFORMANCE_CALL_EXTRAS_H_

#include "tests/conformance/call_story.h"
#include "tests/conformance/fields.h"
#include "tests/conformance/report.h"

namespace retry_guard::conformance {

// Each returns false, and has done nothing, if the scenario is not of its kind.

// A stream that the peer refused, by policy and without.
bool ReplayRefused(const Fields& scenario, const CallStory& story,
                   Report& report);
// A call that is dropped: it ends, and leaves nothing behind.
bool ReplayLifetime(const Fields& scenario, CallStory story, Report& report);
// The number of retries, when they come, how soon the call ends.
bool ReplayTimes(const Fields& scenario, CallStory story, Report& report);

// Which attempts were retryable, and which were followed by another; nothing
// without `expect.flags`.
void CheckFlags(const Fields& scenario, const CallStory& story, Report& report);

// The same call for an idempotent method and for one that is not.
void ReplayIdempotency(const Fields& scenario, Report& report);

}  // namespace retry_guard::conformance

#endif  // RETRY_GUARD_TESTS_CONFORMANCE_CALL_EXTRAS_H_
