#include "tests/conformance/report.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace retry_guard::conformance {

void Report::NotApplicable(absl::string_view why) {
  if (not_applicable_.empty()) not_applicable_ = std::string(why);
}

void Report::Diverges(Rule rule) {
  if (std::find(rules_.begin(), rules_.end(), rule) == rules_.end()) {
    rules_.push_back(rule);
  }
}

bool Report::Check(bool holds, absl::string_view what) {
  ++checks_;
  if (!holds) failures_.emplace_back(what);
  return holds;
}

bool Report::Near(absl::string_view what, absl::Duration actual,
                  absl::Duration expected, absl::Duration tolerance) {
  const bool near =
      actual == expected || absl::AbsDuration(actual - expected) <= tolerance;
  return Check(
      near, absl::StrCat(what, ": ", Show(actual), ", not ", Show(expected)));
}

bool Report::Within(absl::string_view what, absl::Duration actual,
                    absl::Duration low, absl::Duration high) {
  const absl::Duration slack = absl::Microseconds(1);
  return Check(actual >= low - slack && actual <= high + slack,
               absl::StrCat(what, ": ", Show(actual), ", not in ", Show(low),
                            " to ", Show(high)));
}

Finding Report::finding() const {
  if (!applicable()) return Finding::kNotApplicable;
  if (failed()) return Finding::kFailed;
  if (checks_ == 0) return Finding::kNotApplicable;
  return rules_.empty() ? Finding::kPassed : Finding::kDivergent;
}

std::string Report::reason() const {
  switch (finding()) {
    case Finding::kPassed:
      return "";
    case Finding::kFailed:
      return absl::StrJoin(failures_, "; ");
    case Finding::kDivergent:
      return absl::StrJoin(rules_, "; ", [](std::string* out, Rule rule) {
        absl::StrAppend(out, ReasonOf(rule));
      });
    case Finding::kNotApplicable:
      return applicable() ? "there is nothing in it to check" : not_applicable_;
  }
  return "";
}

}  // namespace retry_guard::conformance
