// What became of one scenario. The checks of its replay go in, one verdict and
// one line of reason come out.

#ifndef RETRY_GUARD_TESTS_CONFORMANCE_REPORT_H_
#define RETRY_GUARD_TESTS_CONFORMANCE_REPORT_H_

#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/conformance/divergences.h"

namespace retry_guard::conformance {

enum class Finding { kPassed, kFailed, kDivergent, kNotApplicable };

class Report {
 public:
  // There is something in the scenario that this runner does not understand, or
  // that retry_guard has nothing like. It wins over everything else: a replay
  // that left something out proves nothing. The first reason stays.
  void NotApplicable(absl::string_view why);

  // The scenario expects what a rule of ours answers otherwise on purpose. The
  // checks are about our rule then.
  void Diverges(Rule rule);

  // True if it holds, for the caller who cannot go on without.
  bool Check(bool holds, absl::string_view what);

  template <typename A, typename B>
  bool Equal(absl::string_view what, const A& actual, const B& expected) {
    return Check(actual == expected, absl::StrCat(what, ": ", Show(actual),
                                                  ", not ", Show(expected)));
  }
  bool Near(absl::string_view what, absl::Duration actual,
            absl::Duration expected,
            absl::Duration tolerance = absl::Microseconds(1));
  bool Within(absl::string_view what, absl::Duration actual, absl::Duration low,
              absl::Duration high);

  bool applicable() const { return not_applicable_.empty(); }
  bool failed() const { return !failures_.empty(); }

  // A replay that checked nothing is no pass.
  Finding finding() const;
  std::string reason() const;

 private:
  template <typename T>
  static std::string Show(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      return value ? "true" : "false";
    } else if constexpr (std::is_same_v<T, absl::Duration>) {
      return absl::FormatDuration(value);
    } else if constexpr (std::is_constructible_v<std::string, const T&>) {
      return absl::StrCat("\"", std::string(value), "\"");
    } else {
      return absl::StrCat(value);
    }
  }

  std::string not_applicable_;
  std::vector<Rule> rules_;
  std::vector<std::string> failures_;
  int checks_ = 0;
};

}  // namespace retry_guard::conformance

#endif  // RETRY_GUARD_TESTS_CONFORMANCE_REPORT_H_
