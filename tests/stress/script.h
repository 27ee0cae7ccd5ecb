// What is going to happen in one call: a function of the seed and the call's
// number, so that client, server and model agree without talking.

#ifndef RETRY_GUARD_TESTS_STRESS_SCRIPT_H_
#define RETRY_GUARD_TESTS_STRESS_SCRIPT_H_

#include <grpcpp/support/status_code_enum.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "tests/end2end/call_styles.h"
#include "tests/end2end/stream_styles.h"

namespace retry_guard::stress {

using end2end::Style;

using end2end::MethodOf;  // "Unary"
using end2end::Shape;
inline constexpr int kShapes = 4;

// The channels there are; routes.h says what is special about each.
enum class RouteId {
  kBudgeted,
  kGenerous,
  kTimeouts,
  kBreakers,
  kShaky,
  kBrief
};
inline constexpr int kRoutes = 6;
std::string RouteName(RouteId route);

// What the server says about retrying, beside its status.
enum class Hint {
  kNone,
  kPushback,         // a proper one, within maxPushback
  kPushbackTooLong,  // beyond it
  kPushbackStop,
  kPushbackGarbage,
  kRetryInfo,
  kDetailsGarbage,  // grpc-status-details-bin that is no Status
  kRetryAfter,
  kRetryAfterGarbage,
};

// What the server does with one attempt.
struct Step {
  enum class End { kOk, kFail, kStall };
  End end = End::kOk;
  grpc::StatusCode code = grpc::StatusCode::OK;  // kFail
  Hint hint = Hint::kNone;
  // Before the end: response headers of their own, so many request messages
  // read (-1: all, to the half-close), so many reply messages sent. An OK call
  // sends all its replies.
  bool headers = false;
  int reads = -1;
  int writes = 0;

  // The client sees nothing of it but the status.
  bool trailers_only() const {
    return end == End::kFail && !headers && writes == 0;
  }
};

// When the client cancels.
struct CancelAt {
  enum class When {
    kNever,
    kBeforeStart,
    kTime,      // `after` the start
    kArrival,   // as attempt `attempt` arrives at the server
    kEnding,    // as the server is about to end it
    kDelivery,  // as the client has its first message
  };
  When when = When::kNever;
  absl::Duration after;
  int attempt = 0;
};

// The call is made by a server on behalf of an inbound call, which then has the
// deadline and is what is cancelled.
enum class Parent { kNone, kContinueFrom, kFromServerContext };

struct Plan {
  uint64_t seed = 0;
  uint64_t id = 0;
  RouteId route = RouteId::kGenerous;
  Shape shape = Shape::kUnary;
  Style style = Style::kSync;
  Parent parent = Parent::kNone;
  bool owned_above = false;  // the inbound call's caller retries it
  int requests = 1;
  int replies = 1;
  int size = 0;  // of the filler in each message
  bool corked = false;
  bool two_threads = false;  // one writes, one reads
  std::optional<absl::Duration> deadline;
  CancelAt cancel;
  // The stream is dropped, without Finish, after so many messages; -1: it is
  // not.
  int drop_after = -1;

  bool streams_up() const {
    return shape == Shape::kClientStream || shape == Shape::kBidi;
  }
  bool streams_down() const {
    return shape == Shape::kServerStream || shape == Shape::kBidi;
  }

  // What the server does with attempt number `attempt`, from 1.
  Step StepFor(int attempt) const;

  // Message `index` of the client, and the server's `index`th reply of attempt
  // `attempt` to it. (A stream of replies to one request answers that one.)
  std::string Request(int index) const;
  std::string Reply(int attempt, int index, const std::string& request) const;
  // The text of the status with which the server ends attempt `attempt`.
  std::string ErrorText(int attempt) const;

  std::string ToString() const;
};

struct Limits {
  bool sync_only = false;
};

// A plain call.
Plan CalmPlan(uint64_t seed, uint64_t id);

Plan MakePlan(uint64_t seed, uint64_t id, const Limits& limits);

// Metadata with the number of a call.
inline constexpr char kCallKey[] = "chaos-call";

}  // namespace retry_guard::stress

#endif  // RETRY_GUARD_TESTS_STRESS_SCRIPT_H_
