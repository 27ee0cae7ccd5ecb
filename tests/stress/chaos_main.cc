// retry_guard_chaos: see README.md.

#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "tests/stress/chaos.h"

namespace {

bool ReadFlag(absl::string_view flag,
              retry_guard::stress::ChaosOptions* options) {
  double seconds = 0;
  if (absl::ConsumePrefix(&flag, "--seed=")) {
    return absl::SimpleAtoi(flag, &options->seed);
  }
  if (absl::ConsumePrefix(&flag, "--calls=")) {
    return absl::SimpleAtoi(flag, &options->calls) && options->calls > 0;
  }
  if (absl::ConsumePrefix(&flag, "--threads=")) {
    return absl::SimpleAtoi(flag, &options->threads) && options->threads > 0;
  }
  if (absl::ConsumePrefix(&flag, "--seconds=")) {
    if (!absl::SimpleAtod(flag, &seconds)) return false;
    options->time = absl::Seconds(seconds);
    return true;
  }
  if (absl::ConsumePrefix(&flag, "--patience=")) {
    if (!absl::SimpleAtod(flag, &seconds)) return false;
    options->patience = absl::Seconds(seconds);
    return true;
  }
  if (absl::ConsumePrefix(&flag, "--styles=")) {
    options->limits.sync_only = flag == "sync";
    return flag == "sync" || flag == "all";
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  retry_guard::stress::ChaosOptions options;
  for (int i = 1; i < argc; ++i) {
    if (ReadFlag(argv[i], &options)) continue;
    std::fprintf(stderr,
                 "usage: retry_guard_chaos [--seed=N] [--calls=N] "
                 "[--seconds=S] [--threads=N]\n"
                 "         [--styles=all|sync] [--patience=S]\n");
    return 2;
  }
  return retry_guard::stress::Chaos(options).Run() ? 0 : 1;
}
