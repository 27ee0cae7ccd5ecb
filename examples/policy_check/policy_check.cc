// Tells the engineer who edits a service config what it means. See README.md.

#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/time/time.h"
#include "analysis.h"
#include "print.h"
#include "retry_guard/config/service_config.h"

ABSL_FLAG(std::string, method, "", "only this method: /package.Service/Method");
ABSL_FLAG(absl::Duration, timeout, absl::InfiniteDuration(),
          "the deadline that callers set, such as 2s");
ABSL_FLAG(bool, json, false, "print JSON");

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "policy_check CONFIG.json [--method /pkg.Service/Method] "
      "[--timeout 2s] [--json]\n"
      "exit code: 0 a good policy, 1 a bad one, 2 used wrongly");
  const std::vector<char*> arguments = absl::ParseCommandLine(argc, argv);
  if (arguments.size() != 2) {
    std::cerr << absl::ProgramUsageMessage() << "\n";
    return 2;
  }
  std::ifstream file(arguments[1]);
  if (!file) {
    std::cerr << arguments[1] << ": cannot be read\n";
    return 2;
  }
  const std::string text((std::istreambuf_iterator<char>(file)),
                         std::istreambuf_iterator<char>());
  const bool json = absl::GetFlag(FLAGS_json);

  const auto config = retry_guard::ParseServiceConfig(text);
  if (!config.ok()) {
    if (json) {
      std::cout << policy_check::ErrorsToJson(config.status());
    } else {
      std::cerr << config.status().message() << "\n";
    }
    return 1;
  }
  const std::string method = absl::GetFlag(FLAGS_method);
  const absl::Duration timeout = absl::GetFlag(FLAGS_timeout);
  const policy_check::Analysis analysis = policy_check::Analyse(
      **config,
      method.empty() ? std::nullopt : std::optional<std::string_view>(method),
      timeout == absl::InfiniteDuration()
          ? std::nullopt
          : std::optional<absl::Duration>(timeout));
  std::cout << (json ? policy_check::ToJson(analysis)
                     : policy_check::ToText(analysis));
}
