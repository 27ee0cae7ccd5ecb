// storm: what retries do to a backend in trouble. See README.md.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "backend.h"
#include "report.h"
#include "run.h"
#include "scenario.h"

ABSL_FLAG(std::string, outage, "slow",
          "What the trouble is: slow (service time x 10), error (every request "
          "is refused at once) or kill (the process is killed and started "
          "again).");
ABSL_FLAG(std::vector<std::string>, modes,
          std::vector<std::string>(storm::ModeNames().begin(),
                                   storm::ModeNames().end()),
          "Which modes to run, one after the other.");
ABSL_FLAG(std::string, json, "", "Write the numbers to this file, too.");
ABSL_FLAG(bool, quick, false,
          "A run of 20 seconds to see that everything works. Its phases are "
          "too short for its numbers to mean anything.");
ABSL_FLAG(uint64_t, seed, 1,
          "Of the arrival times and of the backend's bad luck.");

ABSL_FLAG(bool, backend, false, "For internal use: be the backend.");
ABSL_FLAG(int, port, 0, "For internal use: of the backend.");
ABSL_FLAG(int, shared_fd, -1, "For internal use: of the backend.");

namespace {

int RunScenario() {
  storm::Scenario scenario;
  const std::optional<storm::Outage> outage =
      storm::ParseOutage(absl::GetFlag(FLAGS_outage));
  if (!outage) {
    std::fprintf(stderr, "storm: --outage is slow, error or kill\n");
    return 2;
  }
  scenario.outage = *outage;
  scenario.seed = absl::GetFlag(FLAGS_seed);
  if (absl::GetFlag(FLAGS_quick)) scenario.phases = storm::QuickPhases();

  const std::vector<storm::ModeRun> runs =
      storm::RunAll(scenario, absl::GetFlag(FLAGS_modes));
  std::printf("\n%s\n%s", storm::Table(scenario.phases, runs).c_str(),
              storm::Chart(scenario.phases, runs).c_str());

  if (absl::GetFlag(FLAGS_quick)) {
    std::printf("\nThis was --quick: too short for the numbers to count.\n");
  }

  const std::string path = absl::GetFlag(FLAGS_json);
  if (path.empty()) return 0;
  std::ofstream file(path);
  file << storm::Json(scenario.outage, scenario.phases, runs);
  file.close();
  if (!file) {
    std::fprintf(stderr, "storm: cannot write %s\n", path.c_str());
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "shows what four ways to retry do to a backend in trouble.\n"
      "Takes two minutes. Usage: storm [--outage=slow|error|kill] "
      "[--json=FILE] [--quick]");
  if (absl::ParseCommandLine(argc, argv).size() > 1) {
    std::fprintf(stderr, "storm: takes flags only, see --help\n");
    return 2;
  }
  try {
    if (absl::GetFlag(FLAGS_backend)) {
      return storm::RunBackend(absl::GetFlag(FLAGS_port),
                               absl::GetFlag(FLAGS_shared_fd),
                               absl::GetFlag(FLAGS_seed));
    }
    return RunScenario();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "storm: %s\n", error.what());
    return 1;
  }
}
