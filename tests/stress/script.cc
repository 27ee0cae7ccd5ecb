#include "tests/stress/script.h"

#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/stress/dice.h"

namespace retry_guard::stress {
namespace {

using grpc::StatusCode;

// More than any policy here allows.
constexpr int kScriptedAttempts = 8;

// Streams have four of the styles of unary calls.
constexpr std::array<Style, 4> kStreamStyles = {
    Style::kSync, Style::kReactor, Style::kQueue, Style::kGenericQueue};
RouteId PickRoute(Dice& dice) {
  const int at = dice.Between(0, 99);
  if (at < 15) return RouteId::kBudgeted;
  if (at < 50) return RouteId::kGenerous;
  if (at < 70) return RouteId::kTimeouts;
  if (at < 82) return RouteId::kBreakers;
  if (at < 98) return RouteId::kShaky;
  return RouteId::kBrief;
}

Shape PickShape(Dice& dice) {
  const int at = dice.Between(0, 99);
  if (at < 50) return Shape::kUnary;
  if (at < 65) return Shape::kServerStream;
  if (at < 80) return Shape::kClientStream;
  return Shape::kBidi;
}

Style PickStyle(Dice& dice, Shape shape, const Limits& limits) {
  static const std::vector<Style> unary_styles = end2end::AllStyles();
  const Style unary = dice.Pick(unary_styles);
  const Style stream = dice.Pick(kStreamStyles);
  if (limits.sync_only) return Style::kSync;
  if (shape == Shape::kUnary) return unary;
  // A generic stub has no other streams than bidirectional ones.
  if (stream == Style::kGenericQueue && shape != Shape::kBidi) {
    return Style::kQueue;
  }
  return stream;
}

CancelAt PickCancel(Dice& dice) {
  CancelAt cancel;
  cancel.after = absl::Microseconds(dice.Between(0, 6000));
  cancel.attempt = dice.Between(1, 2);
  const int at = dice.Between(0, 99);
  if (at < 2) cancel.when = CancelAt::When::kBeforeStart;
  if (at >= 2 && at < 8) cancel.when = CancelAt::When::kTime;
  if (at >= 8 && at < 11) cancel.when = CancelAt::When::kArrival;
  if (at >= 11 && at < 14) cancel.when = CancelAt::When::kEnding;
  if (at == 14) cancel.when = CancelAt::When::kDelivery;
  return cancel;
}

std::optional<absl::Duration> PickDeadline(Dice& dice) {
  const int at = dice.Between(0, 99);
  const int ms = dice.Between(1, 25);
  if (at == 0) return absl::Milliseconds(-1);
  if (at < 8) return absl::Milliseconds(ms);
  if (at < 30) return absl::Seconds(100);
  return std::nullopt;
}

// Whether the call may come to a stall that nothing else than a cancellation or
// a deadline ends.
bool MayStall(const Plan& plan) {
  for (int attempt = 1; attempt <= kScriptedAttempts; ++attempt) {
    if (plan.StepFor(attempt).end == Step::End::kStall) return true;
  }
  return false;
}

StatusCode PickCode(Dice& dice) {
  const int at = dice.Between(0, 99);
  if (at < 60) return StatusCode::UNAVAILABLE;
  if (at < 70) return StatusCode::ABORTED;
  constexpr std::array<StatusCode, 8> kOthers = {
      StatusCode::INTERNAL,
      StatusCode::INVALID_ARGUMENT,
      StatusCode::RESOURCE_EXHAUSTED,
      StatusCode::DEADLINE_EXCEEDED,
      StatusCode::CANCELLED,
      StatusCode::UNKNOWN,
      StatusCode::FAILED_PRECONDITION,
      StatusCode::DATA_LOSS};
  return dice.Pick(kOthers);
}

Hint PickHint(Dice& dice) {
  const bool any = dice.Percent(30);
  const Hint hint = static_cast<Hint>(
      dice.Between(1, static_cast<int>(Hint::kRetryAfterGarbage)));
  return any ? hint : Hint::kNone;
}

}  // namespace

std::string RouteName(RouteId route) {
  switch (route) {
    case RouteId::kBudgeted:
      return "budgeted";
    case RouteId::kGenerous:
      return "generous";
    case RouteId::kTimeouts:
      return "timeouts";
    case RouteId::kBreakers:
      return "breakers";
    case RouteId::kShaky:
      return "shaky";
    case RouteId::kBrief:
      return "brief";
  }
  return "?";
}

Step Plan::StepFor(int attempt) const {
  Dice dice(seed, id, static_cast<uint64_t>(attempt));
  Step step;
  const int at = dice.Between(0, 99);
  if (at < 60) {
    step.headers = dice.Percent(15);
    return step;
  }
  step.end = at < 95 ? Step::End::kFail : Step::End::kStall;
  step.code = PickCode(dice);
  step.hint = PickHint(dice);
  step.headers = dice.Percent(15);
  // Mostly a server finds out early; some have worked first.
  const bool early = dice.Percent(70);
  step.reads = early ? 0 : dice.Between(-1, 2);
  step.writes = dice.Percent(12) ? dice.Between(1, 2) : 0;
  return step;
}

std::string Plan::Request(int index) const {
  const char filler = static_cast<char>('a' + (id * 31 + index) % 26);
  return absl::StrCat("c", id, " k", index, " ", std::string(size, filler));
}

std::string Plan::Reply(int attempt, int index,
                        const std::string& request) const {
  return absl::StrCat("a", attempt, " r", index, " ", request);
}

std::string Plan::ErrorText(int attempt) const {
  return absl::StrCat("c", id, " ended in a", attempt);
}

std::string Plan::ToString() const {
  std::string text =
      absl::StrCat("call ", id, " of seed ", seed, ": ", RouteName(route), " ",
                   MethodOf(shape), " ", end2end::StyleName(style), ", ",
                   requests, " requests, ", replies, " replies, size ", size);
  if (parent != Parent::kNone) {
    absl::StrAppend(&text, parent == Parent::kContinueFrom
                               ? ", ContinueFrom"
                               : ", FromServerContext");
    if (owned_above) absl::StrAppend(&text, " (owned)");
  }
  if (corked) absl::StrAppend(&text, ", corked");
  if (two_threads) absl::StrAppend(&text, ", two threads");
  if (deadline.has_value()) {
    absl::StrAppend(&text, ", deadline ", absl::FormatDuration(*deadline));
  }
  if (drop_after >= 0) absl::StrAppend(&text, ", dropped after ", drop_after);
  if (cancel.when != CancelAt::When::kNever) {
    absl::StrAppend(&text, ", cancelled (", static_cast<int>(cancel.when), ", ",
                    absl::FormatDuration(cancel.after), ", a", cancel.attempt,
                    ")");
  }
  for (int attempt = 1; attempt <= 4; ++attempt) {
    const Step step = StepFor(attempt);
    absl::StrAppend(&text, "; a", attempt, ": ");
    if (step.end == Step::End::kOk) {
      absl::StrAppend(&text, step.headers ? "headers, OK" : "OK");
      continue;
    }
    absl::StrAppend(&text, step.headers ? "headers, " : "", step.reads,
                    " reads, ", step.writes, " writes, ",
                    step.end == Step::End::kStall
                        ? "stall"
                        : absl::StrCat("code ", step.code, " hint ",
                                       static_cast<int>(step.hint)));
  }
  return text;
}

Plan CalmPlan(uint64_t seed, uint64_t id) {
  Plan plan;
  plan.seed = seed;
  plan.id = id;
  return plan;
}

Plan MakePlan(uint64_t seed, uint64_t id, const Limits& limits) {
  // Attempts count from 1: 0 is the plan's own.
  Dice dice(seed, id, 0);
  Plan plan;
  plan.seed = seed;
  plan.id = id;
  plan.route = PickRoute(dice);
  plan.shape = PickShape(dice);
  plan.style = PickStyle(dice, plan.shape, limits);
  plan.size = dice.Between(0, 40);
  plan.cancel = PickCancel(dice);
  plan.deadline = PickDeadline(dice);
  const int requests = dice.Between(0, 4);
  const int replies = dice.Between(0, 4);
  if (plan.streams_up()) plan.requests = requests;
  if (plan.shape == Shape::kServerStream) plan.replies = replies;
  plan.two_threads = dice.Percent(30) && plan.shape == Shape::kBidi;
  // Without a write a corked stream never starts.
  plan.corked = dice.Percent(15) && plan.streams_up() && plan.requests > 0;
  // Beyond the windows of flow control. Who writes much before it reads, to a
  // server that does the same, waits for ever: that is the application's fault.
  if (dice.Percent(2) &&
      (plan.shape != Shape::kBidi || plan.two_threads || plan.requests <= 1)) {
    plan.size = dice.Between(60'000, 200'000);
  }
  const bool may_drop =
      plan.streams_down() &&
      (plan.style == Style::kSync || plan.style == Style::kQueue ||
       plan.style == Style::kGenericQueue);
  const int drop_after = dice.Between(0, 3);
  if (dice.Percent(10) && may_drop && !plan.two_threads) {
    plan.drop_after = drop_after;
  }
  const bool has_parent = dice.Percent(5);
  const bool continues = dice.Percent(50);
  const bool owned = dice.Percent(30);
  if (has_parent && plan.cancel.when != CancelAt::When::kBeforeStart) {
    plan.parent =
        continues ? Parent::kContinueFrom : Parent::kFromServerContext;
    plan.owned_above = owned;
  }
  // What never ends says nothing.
  const bool ends_by_itself =
      plan.cancel.when == CancelAt::When::kBeforeStart ||
      plan.cancel.when == CancelAt::When::kTime ||
      (plan.deadline.has_value() && *plan.deadline < absl::Seconds(1));
  const int ms = dice.Between(1, 40);
  if (!ends_by_itself && MayStall(plan)) plan.deadline = absl::Milliseconds(ms);
  return plan;
}

}  // namespace retry_guard::stress
