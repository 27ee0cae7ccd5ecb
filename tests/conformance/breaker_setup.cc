#include "tests/conformance/breaker_setup.h"

#include <algorithm>
#include <cmath>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace retry_guard::conformance {
namespace {

// Longer than any scenario: a window of calls has no end in time.
constexpr absl::Duration kForEver = absl::Hours(1);

void OpenFor(BreakerSetup* setup, absl::Duration duration) {
  // The peers do not double it.
  setup->policy.open_for = duration;
  setup->policy.max_open_for = duration;
}

void HalfOpen(BreakerSetup* setup, int64_t calls) {
  setup->half_open_calls = calls;
  setup->successes_to_close = calls;
  setup->policy.probes = static_cast<int>(calls);
}

BreakerSetup Base() {
  BreakerSetup setup;
  setup.policy.failure_rate = 0;
  setup.policy.min_requests = 1;
  setup.policy.window = kForEver;
  setup.policy.consecutive_failures = 0;
  OpenFor(&setup, absl::Seconds(60));
  return setup;
}

// The numbers that `pattern` finds in the notes; empty if it finds none.
std::vector<double> FromNotes(const Table& table, const std::string& pattern) {
  const std::regex regex(pattern);
  for (const std::string& note : table.notes) {
    std::smatch match;
    if (!std::regex_search(note, match, regex)) continue;
    std::vector<double> numbers;
    for (size_t i = 1; i < match.size(); ++i) {
      numbers.push_back(std::stod(match[i].str()));
    }
    return numbers;
  }
  return {};
}

constexpr char kNumber[] = "([0-9.]+)";

// Configurations that the notes of a file define, and its scenarios name.
std::optional<BreakerSetup> Named(const Table& table, const std::string& name) {
  BreakerSetup setup = Base();
  if (name == "D") {
    const auto n =
        FromNotes(table, absl::StrCat("'D': opens at more than ", kNumber,
                                      " consecutive failures, open ", kNumber,
                                      " s, ", kNumber, " call"));
    if (n.size() != 3) return std::nullopt;
    setup.policy.consecutive_failures = static_cast<int64_t>(n[0]) + 1;
    OpenFor(&setup, absl::Seconds(n[1]));
    HalfOpen(&setup, static_cast<int64_t>(n[2]));
    return setup;
  }
  if (name == "K" || name == "W") {
    const auto n = FromNotes(
        table, absl::StrCat("'K': opens when at least ", kNumber,
                            " counted calls and failure ratio >= ", kNumber,
                            ", interval ", kNumber, " s .*open ", kNumber,
                            " s, ", kNumber, " calls in half-open"));
    if (n.size() != 5) return std::nullopt;
    setup.policy.min_requests = static_cast<int64_t>(n[0]);
    setup.policy.failure_rate = n[1];
    setup.policy.window = absl::Seconds(n[2]);
    OpenFor(&setup, absl::Seconds(n[3]));
    HalfOpen(&setup, static_cast<int64_t>(n[4]));
    setup.fixed_intervals = true;
    return setup;
  }
  if (name == "B") {
    const auto n = FromNotes(
        table, absl::StrCat("'B': failure rate threshold ", kNumber,
                            " %.*time window ", kNumber, " s, minimum ",
                            kNumber, " calls, open for ", kNumber, " s, ",
                            kNumber, " permitted calls"));
    if (n.size() != 5) return std::nullopt;
    setup.policy.failure_rate = n[0] / 100;
    setup.policy.window = absl::Seconds(n[1]);
    setup.policy.min_requests = static_cast<int64_t>(n[2]);
    OpenFor(&setup, absl::Seconds(n[3]));
    HalfOpen(&setup, static_cast<int64_t>(n[4]));
    setup.tolerant_half_open = true;
    return setup;
  }
  return std::nullopt;
}

// Where a scenario has no config, the defaults that the notes give.
std::optional<BreakerSetup> FromDefaults(const Table& table) {
  const auto n = FromNotes(
      table, absl::StrCat("Defaults: ratio ", kNumber, ", minimum ", kNumber,
                          ", window ", kNumber, " s, break ", kNumber, " s"));
  if (n.size() != 4) return std::nullopt;
  BreakerSetup setup = Base();
  setup.policy.failure_rate = n[0];
  setup.policy.min_requests = static_cast<int64_t>(n[1]);
  setup.policy.window = absl::Seconds(n[2]);
  OpenFor(&setup, absl::Seconds(n[3]));
  return setup;
}

// [k, n], or k for k of k.
std::optional<std::pair<int64_t, int64_t>> ReadShare(const Fields& config,
                                                     const char* key) {
  if (config.IsArray(key)) {
    const std::vector<double> pair = config.Numbers(key);
    if (pair.size() != 2) return std::nullopt;
    return std::pair(static_cast<int64_t>(pair[0]),
                     static_cast<int64_t>(pair[1]));
  }
  const auto k = config.Int(key);
  if (!k.has_value()) return std::nullopt;
  return std::pair(*k, *k);
}

// "k of the last n": failsafe.
std::optional<BreakerSetup> FromThresholds(const Fields& config,
                                           Report& report) {
  BreakerSetup setup = Base();
  const auto failures =
      ReadShare(config, "failure_threshold").value_or(std::pair(1L, 1L));
  const auto successes = ReadShare(config, "success_threshold");
  if (failures.first == failures.second) {
    setup.policy.consecutive_failures = failures.first;
  } else {
    setup.policy.failure_rate = static_cast<double>(failures.first) /
                                static_cast<double>(failures.second);
    setup.policy.min_requests = failures.second;
    setup.last_calls = failures.second;
  }
  if (const auto delay = config.Time("delay")) {
    if (*delay <= absl::ZeroDuration()) {
      report.NotApplicable("config.delay_ms 0: ours is open for a while");
    } else {
      OpenFor(&setup, *delay);
    }
  }
  if (successes.has_value()) {
    HalfOpen(&setup, successes->first);
    setup.half_open_calls = successes->second;
    setup.tolerant_half_open = successes->first < successes->second;
  } else {
    // The failure threshold holds in half-open, too.
    HalfOpen(&setup, failures.second - failures.first + 1);
    setup.half_open_calls = failures.second;
    setup.tolerant_half_open = failures.first > 1;
  }
  return setup;
}

std::optional<BreakerSetup> FromPolicyName(const Fields& config,
                                           const std::string& policy,
                                           Report& report) {
  BreakerSetup setup = Base();
  if (const auto dead = config.Time("dead")) OpenFor(&setup, *dead);
  if (policy == "consecutive") {
    setup.policy.consecutive_failures = config.Int("n").value_or(0);
    return setup;
  }
  if (policy == "success_rate") {
    const auto required = config.Number("required");
    const auto window = config.Int("window");
    if (required.has_value() && window.has_value()) {
      setup.policy.failure_rate = 1 - *required;
      setup.policy.min_requests = *window;
      setup.last_calls = *window;
      return setup;
    }
  }
  report.NotApplicable(
      absl::StrCat("config.policy ", policy,
                   "; ours is a failure rate or failures in a row"));
  return std::nullopt;
}

}  // namespace

std::optional<BreakerSetup> ReadBreakerSetup(const Table& table,
                                             const Fields& scenario,
                                             Report& report) {
  std::optional<BreakerSetup> setup;
  if (scenario.IsString("config")) {
    const std::string name = *scenario.Text("config");
    setup = Named(table, name);
    if (!setup.has_value()) {
      report.NotApplicable(
          absl::StrCat("config ", name, " is not defined in the notes"));
    }
    return setup;
  }
  if (!scenario.Has("config")) {
    setup = FromDefaults(table);
    if (!setup.has_value()) report.NotApplicable("no config, and no defaults");
    return setup;
  }
  const Fields config = scenario.Object("config");
  if (const auto policy = config.Text("policy")) {
    return FromPolicyName(config, *policy, report);
  }
  if (config.IsString("base")) {
    const std::string name = *config.Text("base");
    setup = Named(table, name);
    if (!setup.has_value()) {
      report.NotApplicable(absl::StrCat("config.base ", name));
      return setup;
    }
    if (const auto calls = config.Int("half_open_calls")) {
      HalfOpen(&*setup, *calls);
    }
    config.Bool("exclusion");  // an outcome that is none: ours is neutral
    return setup;
  }
  return FromThresholds(config, report);
}

}  // namespace retry_guard::conformance
