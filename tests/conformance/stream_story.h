// Scenarios of streams: calls of which a table tells the messages, one by one.

#ifndef RETRY_GUARD_TESTS_CONFORMANCE_STREAM_STORY_H_
#define RETRY_GUARD_TESTS_CONFORMANCE_STREAM_STORY_H_

#include "tests/conformance/call_story.h"
#include "tests/conformance/fields.h"
#include "tests/conformance/report.h"

namespace retry_guard::conformance {

// Drives streams of every shape that has as many messages as the story, in
// blocking and callback style. False, and nothing done, if it is no stream.
bool ReplayStreams(const Fields& scenario, CallStory story, Report& report);

}  // namespace retry_guard::conformance

#endif  // RETRY_GUARD_TESTS_CONFORMANCE_STREAM_STORY_H_
