#include "tests/stress/model.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace retry_guard::stress {
namespace {

using grpc::StatusCode;

bool HintForbids(Hint hint) {
  return hint == Hint::kPushbackTooLong || hint == Hint::kPushbackStop ||
         hint == Hint::kPushbackGarbage;
}

// The server's word that repeating is welcome.
bool HintConsents(Hint hint) {
  return hint == Hint::kPushback || hint == Hint::kRetryInfo;
}

class Judgement {
 public:
  Judgement(const Record& record, const Result& result,
            const RouteTraits& route, int max_attempts, absl::Time ended)
      : record_(record),
        plan_(record.plan()),
        result_(result),
        route_(route),
        max_attempts_(plan_.owned_above ? 1 : max_attempts),
        took_(ended - record.started()),
        attempts_(record.attempts()) {}

  std::vector<std::string> Run() {
    JudgeAttempts();
    JudgeReplies();
    if (result_.has_status) JudgeStatus();
    return std::move(wrong_);
  }

 private:
  template <typename... Words>
  void Wrong(const Words&... words) {
    wrong_.push_back(absl::StrCat(words...));
  }

  // How many there were, as far as anybody could see.
  int last_attempt() const {
    return route_.sees_attempts ? static_cast<int>(attempts_.size())
                                : record_.last_arrival();
  }

  // ---- Attempts.

  void JudgeAttempts() {
    // A stream that the server refused, as it went away, is sent once more.
    const int most = max_attempts_ + (route_.restarts ? 1 : 0);
    if (last_attempt() > most) Wrong(last_attempt(), " attempts, of ", most);
    if (route_.sees_attempts && record_.last_arrival() > last_attempt()) {
      Wrong("attempt ", record_.last_arrival(), " arrived, of ",
            last_attempt());
    }
    for (const SeenAttempt& attempt : attempts_) {
      if (result_.has_status && !attempt.ended) {
        Wrong("attempt ", attempt.number, " outlives its call");
      }
      if (attempt.number < last_attempt()) JudgeRetryOf(attempt);
    }
  }

  // Whether another attempt was allowed after this one.
  void JudgeRetryOf(const SeenAttempt& attempt) {
    if (attempt.message != plan_.ErrorText(attempt.number)) {
      JudgeRetryOfOwnMaking(attempt);
      return;
    }
    const Step step = plan_.StepFor(attempt.number);
    if (HintForbids(step.hint)) {
      Wrong("attempt ", attempt.number, " was to be the last");
    }
    if (!IsRetryable(step)) {
      Wrong("attempt ", attempt.number, " is not to be retried");
    }
    if (Commits(step)) Wrong("attempt ", attempt.number, " had committed");
  }

  // After one that ended with words that no server of ours said.
  void JudgeRetryOfOwnMaking(const SeenAttempt& attempt) {
    const bool timed_out = route_.per_attempt_timeout &&
                           attempt.code == StatusCode::DEADLINE_EXCEEDED;
    const bool lost =
        route_.restarts && attempt.code == StatusCode::UNAVAILABLE;
    if (!timed_out && !lost) {
      Wrong("a retry after attempt ", attempt.number, " ended ", attempt.code,
            ": ", attempt.message);
    }
  }

  bool IsRetryable(const Step& step) const {
    if (step.code == StatusCode::UNAVAILABLE) return true;
    // It may have come as the attempt timed out, and then means that.
    if (step.code == StatusCode::DEADLINE_EXCEEDED) {
      return route_.per_attempt_timeout;
    }
    if (step.code == StatusCode::ABORTED) {
      return route_.lists_aborted ||
             (plan_.route == RouteId::kBreakers && HintConsents(step.hint));
    }
    return step.code == StatusCode::RESOURCE_EXHAUSTED &&
           HintConsents(step.hint);
  }

  bool Commits(const Step& step) const {
    const bool shows_headers =
        plan_.shape != Shape::kUnary || end2end::HeadersCommit(plan_.style);
    // Headers that come as the attempt times out may be lost with it. Nothing
    // of them was shown then, which is checked as well.
    return shows_headers && step.headers && !route_.per_attempt_timeout;
  }

  // ---- Replies.

  void JudgeReplies() {
    std::optional<int> source;
    for (int k = 0; k < static_cast<int>(result_.replies.size()); ++k) {
      const std::string& reply = result_.replies[k];
      int attempt = 0;
      if (!IsReply(reply, k, &attempt)) {
        Wrong("reply ", k, " is not of this call: ", reply.substr(0, 60));
      } else if (source.has_value() && *source != attempt) {
        Wrong("replies of attempts ", *source, " and ", attempt);
      } else {
        source = attempt;
      }
    }
    if (source.has_value() && *source != last_attempt()) {
      Wrong("a reply of attempt ", *source, " of ", last_attempt());
    }
  }

  bool IsReply(absl::string_view reply, int index, int* attempt) const {
    absl::string_view rest = reply;
    const size_t space = rest.find(' ');
    if (!absl::ConsumePrefix(&rest, "a") || space == absl::string_view::npos ||
        !absl::SimpleAtoi(rest.substr(0, space - 1), attempt)) {
      return false;
    }
    const auto answers = [&](const std::string& request) {
      return reply == plan_.Reply(*attempt, index, request);
    };
    if (plan_.shape == Shape::kBidi) return answers(plan_.Request(index));
    if (plan_.shape != Shape::kClientStream) return answers(plan_.Request(0));
    // To the last one that had been read.
    if (answers("")) return plan_.requests == 0;
    const int first = result_.status.ok() ? std::max(plan_.requests - 1, 0) : 0;
    for (int k = first; k < plan_.requests; ++k) {
      if (answers(plan_.Request(k))) return true;
    }
    return false;
  }

  // ---- The status.

  void JudgeStatus() {
    const grpc::Status& status = result_.status;
    if (status.ok()) {
      JudgeOk();
    } else if (IsServersWord(status.error_message())) {
      JudgeServersWord(status);
    } else {
      JudgeOwnWord(status);
    }
    if (!attempts_.empty() && attempts_.back().ended &&
        attempts_.back().code != status.error_code() && !IsKept(status)) {
      Wrong("ends with code ", status.error_code(), " but its last attempt ",
            attempts_.back().code);
    }
  }

  static bool IsServersWord(const std::string& message) {
    return absl::StartsWith(message, "c") &&
           absl::StrContains(message, " ended in a");
  }

  // The answer of a retry that was refused before it was sent, or a cancelled
  // wait.
  bool IsKept(const grpc::Status& status) const {
    if (status.error_code() == StatusCode::CANCELLED) return MayBeCancelled();
    // That of the server, where the attempts after it have timed out.
    int said_in = 0;
    for (const SeenAttempt& attempt : attempts_) {
      const bool timed_out = route_.per_attempt_timeout &&
                             attempt.code == StatusCode::DEADLINE_EXCEEDED;
      if (attempt.message == status.error_message()) {
        said_in = attempt.number;
      } else if (said_in > 0 && !timed_out) {
        return false;
      }
    }
    return said_in > 0;
  }

  // A deadline that passed as the server said the same: the answer before it is
  // told along.
  bool IsEmbellished(const grpc::Status& status, int attempt) const {
    return status.error_code() == StatusCode::DEADLINE_EXCEEDED &&
           (route_.per_attempt_timeout || plan_.deadline.has_value() ||
            plan_.parent != Parent::kNone) &&
           absl::StartsWith(status.error_message(),
                            plan_.ErrorText(attempt) + " in attempt ");
  }

  void JudgeOk() {
    if (plan_.StepFor(last_attempt()).end != Step::End::kOk) {
      Wrong("OK, which no server said");
    }
    int replies = 1;
    if (plan_.shape == Shape::kServerStream) replies = plan_.replies;
    if (plan_.shape == Shape::kBidi) replies = plan_.requests;
    if (static_cast<int>(result_.replies.size()) != replies) {
      Wrong("OK with ", result_.replies.size(), " replies instead of ",
            replies);
    }
  }

  void JudgeServersWord(const grpc::Status& status) {
    int said_in = 0;
    for (int attempt = 1; attempt <= last_attempt(); ++attempt) {
      if (status.error_message() == plan_.ErrorText(attempt) ||
          IsEmbellished(status, attempt)) {
        said_in = attempt;
      }
    }
    if (said_in == 0) {
      Wrong("ends with the words of another call: ", status.error_message());
      return;
    }
    const Step step = plan_.StepFor(said_in);
    if (step.end != Step::End::kFail || step.code != status.error_code()) {
      Wrong("ends with code ", status.error_code(),
            ", which the server did not say in attempt ", said_in);
    }
    // An attempt whose outcome is unknown does not hide what the server said.
    const bool later_ones_count =
        !route_.per_attempt_timeout && !route_.restarts;
    if (said_in != last_attempt() && later_ones_count) {
      Wrong("ends with the answer of attempt ", said_in, " of ",
            last_attempt());
    }
    if (GivesUpEarly(step, said_in)) {
      Wrong("gives up after attempt ", said_in, " of ", max_attempts_);
    }
  }

  // Where nothing can stand against another attempt.
  bool GivesUpEarly(const Step& step, int attempt) const {
    return route_.unlimited() && attempt < max_attempts_ &&
           step.code == StatusCode::UNAVAILABLE && step.trailers_only() &&
           !HintForbids(step.hint) && !plan_.deadline.has_value() &&
           plan_.parent == Parent::kNone && plan_.size < 1000 / 8 &&
           plan_.cancel.when == CancelAt::When::kNever;
  }

  void JudgeOwnWord(const grpc::Status& status) {
    switch (status.error_code()) {
      case StatusCode::CANCELLED:
        if (MayBeCancelled() || route_.restarts) return;
        break;
      case StatusCode::DEADLINE_EXCEEDED:
        // Core's clock is read once per turn of its loop.
        if (plan_.deadline.has_value() &&
            took_ > *plan_.deadline - absl::Milliseconds(50)) {
          return;
        }
        if (route_.per_attempt_timeout) return;
        break;
      case StatusCode::UNAVAILABLE:
        if (route_.breaker && last_attempt() == 0 &&
            absl::StrContains(status.error_message(), "circuit breaker")) {
          return;
        }
        if (route_.restarts) return;
        break;
      case StatusCode::UNKNOWN:
      case StatusCode::INTERNAL:
        if (route_.restarts) return;
        break;
      default:
        break;
    }
    Wrong("ends with code ", status.error_code(),
          ", which nobody said: ", status.error_message());
  }

  bool MayBeCancelled() const {
    return record_.cancelled() ||
           // The inbound call's deadline ends it for its server by a
           // cancellation.
           (plan_.parent != Parent::kNone && plan_.deadline.has_value());
  }

  const Record& record_;
  const Plan& plan_;
  const Result& result_;
  const RouteTraits& route_;
  const int max_attempts_;
  const absl::Duration took_;
  const std::vector<SeenAttempt> attempts_;
  std::vector<std::string> wrong_;
};

}  // namespace

std::vector<std::string> Judge(const Record& record, const Result& result,
                               const RouteTraits& route, int max_attempts,
                               absl::Time ended) {
  return Judgement(record, result, route, max_attempts, ended).Run();
}

}  // namespace retry_guard::stress
