// `mapping` of what befell a call to the status that gRPC makes of it: what the
// caller gets through retry_guard is the same.

#include "absl/strings/str_cat.h"
#include "retry_guard/policy/status_codes.h"
#include "tests/conformance/calls.h"
#include "tests/conformance/kinds.h"

namespace retry_guard::conformance {

void ReplayGeneratedStatus(const Fields& scenario, Report& report) {
  const std::string what = scenario.Object("input").Text("case").value_or("");
  const Fields expect = scenario.Object("expect");
  const auto status = expect.Text("status");
  expect.Note({"generated_at"});
  if (!scenario.AllRead()) return;
  CallPlan plan;
  FillRetryPolicy(&plan.config);
  plan.replies = {Reply::Hold()};
  if (what == "application cancelled the call") {
    plan.cancel_in_flight = true;
  } else if (what == "deadline passed") {
    plan.deadline = absl::Milliseconds(100);
  } else {
    report.NotApplicable(
        "made by gRPC core or by a server, below an interceptor");
    return;
  }
  for (const auto style : {end2end::Style::kSync, end2end::Style::kCallback}) {
    const CallSeen seen = MakeCall(plan, style);
    report.Equal("status",
                 std::string(StatusCodeName(
                     SanitizeStatusCode(seen.status.error_code()))),
                 status.value_or(""));
    report.Equal("attempts", seen.snapshot.attempts, 1);
  }
}

}  // namespace retry_guard::conformance
