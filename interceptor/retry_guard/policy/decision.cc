#include "retry_guard/policy/decision.h"

#include <ostream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "retry_guard/policy/absl_view.h"
#include "retry_guard/policy/status_codes.h"

namespace retry_guard {
namespace {

// Microseconds are enough for a reader.
std::string Short(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Microseconds(1)));
}

}  // namespace

std::string_view ReasonName(Reason reason) {
  switch (reason) {
    case Reason::kRetry:
      return "RETRY";
    case Reason::kSucceeded:
      return "SUCCEEDED";
    case Reason::kCallerCancelled:
      return "CALLER_CANCELLED";
    case Reason::kCommitted:
      return "COMMITTED";
    case Reason::kNotRetryable:
      return "NOT_RETRYABLE";
    case Reason::kNotIdempotent:
      return "NOT_IDEMPOTENT";
    case Reason::kServerSaidStop:
      return "SERVER_SAID_STOP";
    case Reason::kDisabled:
      return "DISABLED";
    case Reason::kAnotherLayerRetries:
      return "ANOTHER_LAYER_RETRIES";
    case Reason::kLayerNever:
      return "LAYER_NEVER";
    case Reason::kCoreRetries:
      return "CORE_RETRIES";
    case Reason::kBreakerOpen:
      return "BREAKER_OPEN";
    case Reason::kAttemptsExhausted:
      return "ATTEMPTS_EXHAUSTED";
    case Reason::kDeadlineTooClose:
      return "DEADLINE_TOO_CLOSE";
    case Reason::kBudgetExhausted:
      return "BUDGET_EXHAUSTED";
    case Reason::kUnknownMessageType:
      return "UNKNOWN_MESSAGE_TYPE";
  }
  return "INVALID";
}

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kRetry:
      return "RETRY";
    case Verdict::kReturn:
      return "RETURN";
  }
  return "INVALID";
}

std::ostream& operator<<(std::ostream& os, Reason reason) {
  return os << ReasonName(reason);
}

std::ostream& operator<<(std::ostream& os, Verdict verdict) {
  return os << VerdictName(verdict);
}

std::string ToString(const Decision& decision) {
  std::string line(decision.method);
  if (decision.attempt == 0) {
    absl::StrAppend(&line, " not sent ");
  } else {
    absl::StrAppend(&line, " attempt ", decision.attempt, " ");
  }
  absl::StrAppend(&line, AbslView(StatusCodeName(decision.code)), ": ");
  if (decision.verdict == Verdict::kRetry) {
    absl::StrAppend(&line, decision.resend ? "re-send" : "retry", " in ",
                    Short(decision.delay));
  } else {
    absl::StrAppend(&line, "return, ", AbslView(ReasonName(decision.reason)));
  }
  absl::StrAppend(&line, " (elapsed ", Short(decision.elapsed));
  if (decision.remaining != absl::InfiniteDuration()) {
    absl::StrAppend(&line, ", remaining ", Short(decision.remaining));
  }
  // Text that came from elsewhere is escaped: it must not end the line.
  if (!decision.peer.empty()) {
    absl::StrAppend(&line, ", peer ",
                    absl::Utf8SafeCEscape(AbslView(decision.peer)));
  }
  absl::StrAppend(&line, ")");
  if (!decision.message.empty()) {
    absl::StrAppend(&line, " \"",
                    absl::Utf8SafeCEscape(AbslView(decision.message)), "\"");
  }
  return line;
}

std::ostream& operator<<(std::ostream& os, const Decision& decision) {
  return os << ToString(decision);
}

}  // namespace retry_guard
