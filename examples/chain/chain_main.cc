// chain: what retries in every layer of a chain of services come to. See
// README.md.

#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/time/time.h"
#include "layer.h"
#include "report.h"
#include "run.h"
#include "scenario.h"

namespace {

std::vector<std::string> AllModeNames() {
  std::vector<std::string> names;
  for (const chain::Mode mode : chain::kAllModes) {
    names.emplace_back(chain::ModeName(mode));
  }
  return names;
}

}  // namespace

ABSL_FLAG(int, layers, 3,
          "How many services there are, 1 to 5; the last one always fails. "
          "Each is called by a client that retries, so there are as many of "
          "those: the frontend, which sends the users' requests, and every "
          "service but the last.");
ABSL_FLAG(int, requests, 40, "How many user requests to send in each mode.");
ABSL_FLAG(std::vector<std::string>, modes, AllModeNames(),
          "Which modes to run, one after the other.");
ABSL_FLAG(std::string, json, "", "Write the numbers to this file, too.");
ABSL_FLAG(bool, check, false,
          "Fail unless the numbers are as README.md claims.");

ABSL_FLAG(int, layer, -1, "For internal use: be this layer.");
ABSL_FLAG(std::string, next, "", "For internal use: the layer below.");
ABSL_FLAG(int, parent, 0, "For internal use: the process to end with.");

namespace {

std::optional<std::vector<chain::Mode>> ModesFromFlag() {
  std::vector<chain::Mode> modes;
  for (const std::string& name : absl::GetFlag(FLAGS_modes)) {
    const std::optional<chain::Mode> mode = chain::ParseMode(name);
    if (!mode) {
      std::fprintf(stderr, "chain: there is no mode \"%s\"\n", name.c_str());
      return std::nullopt;
    }
    modes.push_back(*mode);
  }
  return modes;
}

bool WriteJson(const std::string& path,
               const std::vector<chain::ModeRun>& runs) {
  std::ofstream file(path);
  file << chain::Json(runs);
  file.close();
  if (!file) std::fprintf(stderr, "chain: cannot write %s\n", path.c_str());
  return bool{file};
}

bool Check(const std::vector<chain::ModeRun>& runs) {
  const std::vector<std::string> broken = chain::BrokenClaims(runs);
  for (const std::string& claim : broken) {
    std::fprintf(stderr, "chain: not as claimed: %s\n", claim.c_str());
  }
  return broken.empty();
}

int RunAll(const std::vector<chain::Mode>& modes) {
  const int layers = absl::GetFlag(FLAGS_layers);
  const int requests = absl::GetFlag(FLAGS_requests);
  if (layers < 1 || layers > chain::kMostLayers || requests < 1 ||
      modes.empty()) {
    std::fprintf(stderr, "chain: 1 to %d layers, at least one request\n",
                 chain::kMostLayers);
    return 2;
  }
  std::vector<chain::ModeRun> runs;
  for (const chain::Mode mode : modes) {
    runs.push_back(chain::RunMode(mode, layers, requests));
    std::fprintf(stderr, "%s: %d requests in %s\n",
                 std::string(chain::ModeName(mode)).c_str(), requests,
                 absl::FormatDuration(
                     absl::Trunc(runs.back().took, absl::Milliseconds(1)))
                     .c_str());
  }
  std::printf("Attempts per user request that each layer received:\n\n%s\n",
              chain::AttemptsTable(runs).c_str());
  std::printf("Seconds left of a user's %.3f, when an attempt arrived:\n\n%s",
              absl::ToDoubleSeconds(chain::kUserTimeout),
              chain::DeadlineTable(runs).c_str());

  const std::string path = absl::GetFlag(FLAGS_json);
  if (!path.empty() && !WriteJson(path, runs)) return 1;
  return !absl::GetFlag(FLAGS_check) || Check(runs) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "shows what retries in every layer of a chain of services come to:\n"
      "frontend -> gateway -> orders -> inventory, where the last one always "
      "fails\nand each of the others makes three attempts. Takes seconds. "
      "Usage: chain\n[--layers=N] [--requests=N] [--json=FILE] [--check]");
  if (absl::ParseCommandLine(argc, argv).size() > 1) {
    std::fprintf(stderr, "chain: takes flags only, see --help\n");
    return 2;
  }
  const std::optional<std::vector<chain::Mode>> modes = ModesFromFlag();
  if (!modes) return 2;
  try {
    if (const int layer = absl::GetFlag(FLAGS_layer); layer >= 0) {
      return chain::RunLayer({modes->front(), layer, absl::GetFlag(FLAGS_next),
                              absl::GetFlag(FLAGS_parent)});
    }
    return RunAll(*modes);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "chain: %s\n", error.what());
    return 1;
  }
}
