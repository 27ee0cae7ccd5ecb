// A `retry_call` scenario, read: what the peer's attempts were, how the call
// ended, and the call of ours that tells the same story.

#ifndef RETRY_GUARD_TESTS_CONFORMANCE_CALL_STORY_H_
#define RETRY_GUARD_TESTS_CONFORMANCE_CALL_STORY_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "retry_guard/policy/backoff.h"
#include "retry_guard/policy/decision.h"
#include "retry_guard/policy/status_codes.h"
#include "tests/conformance/calls.h"
#include "tests/conformance/fields.h"

namespace retry_guard::conformance {

// What an attempt of a scenario is.
struct StoryAttempt {
  enum class By { kServer, kLocal, kNobody, kTransport };
  By by = By::kServer;
  int repeat = 1;
  Reply reply;
  bool refused = false;
  // Of the header that counts attempts: not said, absent (""), or a number.
  std::optional<std::string> previous;
  std::vector<std::string> metadata_seen;
  // Of a stream: what the server has read before it answers, and its messages.
  std::vector<std::string> reads;
  std::vector<std::string> writes;
};

struct CallEnd {
  std::optional<int64_t> attempts;
  std::optional<int64_t> server_calls;
  std::optional<std::string> status;
  std::optional<std::string> text;      // of the status
  std::optional<int64_t> message_from;  // the attempt that was delivered
  std::optional<std::string> mentions;  // in the text of the status
  std::optional<std::string> previous;  // header of the last attempt
  std::optional<Reason> reason;
};

// Everything about one scenario.
struct CallStory {
  CallPlan plan;
  std::vector<StoryAttempt> attempts;
  std::vector<end2end::Style> styles = {end2end::Style::kSync,
                                        end2end::Style::kCallback};
  CallEnd expected;
  int64_t max_attempts = 3;
  StatusCodeSet retryable = {absl::StatusCode::kUnavailable};
  BackoffPolicy backoff;
  absl::Duration per_attempt = absl::InfiniteDuration();
  std::optional<int64_t> buffer_bytes;
  bool has_policy = false;      // the scenario shows a retryPolicy
  bool streams = false;         // it tells of messages, one by one
  bool awaits_headers = false;  // before anything is read
};

CallStory ReadCallStory(const Fields& scenario, Report& report);

// "UNAVAILABLE"; of a number that is none, "UNKNOWN".
std::string CodeName(const grpc::Status& status);

}  // namespace retry_guard::conformance

#endif  // RETRY_GUARD_TESTS_CONFORMANCE_CALL_STORY_H_
