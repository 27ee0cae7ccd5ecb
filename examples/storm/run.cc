#include "run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <future>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backend_process.h"
#include "load.h"
#include "steady_time.h"

namespace storm {
namespace {

void SetServiceTime(SharedPage& levers, absl::Duration time) {
  levers.service_time_us = absl::ToInt64Microseconds(time);
}

void BeginTrouble(Outage outage, BackendProcess& backend) {
  switch (outage) {
    case Outage::kSlow:
      return SetServiceTime(backend.page(), kSlowFactor * kServiceTime);
    case Outage::kError:
      backend.page().refuse_all = true;
      return;
    case Outage::kKill:
      return backend.Kill();
  }
}

void EndTrouble(Outage outage, BackendProcess& backend) {
  switch (outage) {
    case Outage::kSlow:
      return SetServiceTime(backend.page(), kServiceTime);
    case Outage::kError:
      backend.page().refuse_all = false;
      return;
    case Outage::kKill:
      return backend.Start();
  }
}

// One line that is written over on a terminal; elsewhere a line per phase.
class ProgressLine {
 public:
  ProgressLine(std::string label, const Phases& phases)
      : label_(std::move(label)), phases_(phases) {}

  void Show(absl::Duration time, const BackendProcess& backend,
            const LoadProgress& progress) {
    const std::string_view phase = phases_.NameAt(time);
    if (!terminal_ && phase == last_phase_) return;
    last_phase_ = phase;
    const std::vector<int64_t> attempts =
        backend.page().AttemptsPerBucket(phases_.End());
    std::fprintf(stderr, "%s%s%s", terminal_ ? "\r\033[K" : "",
                 absl::StrFormat("%-19s %-7s  %2d of %2d s  attempts %5d  "
                                 "ok %4d  failed %4d",
                                 label_, phase, absl::ToInt64Seconds(time),
                                 absl::ToInt64Seconds(phases_.End()),
                                 std::accumulate(attempts.begin(),
                                                 attempts.end(), int64_t{0}),
                                 progress.ok.load(), progress.failed.load())
                     .c_str(),
                 terminal_ ? "" : "\n");
  }

  void Finish() const {
    if (terminal_) std::fputs("\n", stderr);
  }

 private:
  const std::string label_;
  const Phases phases_;
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  std::string_view last_phase_;
};

// Pulls the levers at their times, and shows the progress in between. Runs on
// the main thread, which must be the one to start the backend.
void Conduct(const Scenario& scenario, absl::Duration start,
             BackendProcess& backend, const LoadProgress& progress,
             ProgressLine& line) {
  const Phases& phases = scenario.phases;
  const auto wait_until = [&](absl::Duration end) {
    while (SteadyNow() < start + end) {
      line.Show(SteadyNow() - start, backend, progress);
      SleepUntil(std::min(SteadyNow() + absl::Milliseconds(100), start + end));
    }
  };
  wait_until(phases.BlipStart());
  backend.page().one_in_fails = kBlipOneIn;
  wait_until(phases.TroubleStart());
  backend.page().one_in_fails = 0;
  BeginTrouble(scenario.outage, backend);
  wait_until(phases.TroubleEnd());
  EndTrouble(scenario.outage, backend);
  wait_until(phases.End());
}

ModeRun RunMode(const Scenario& scenario, const std::string& mode,
                const std::string& label) {
  BackendProcess backend(scenario.seed);
  SetServiceTime(backend.page(), kServiceTime);
  backend.Start();
  const Client client(mode, backend.address());
  const std::vector<absl::Duration> schedule =
      MakeSchedule(kRequestsPerSecond, scenario.phases.End(), scenario.seed);

  const absl::Duration start = SteadyNow() + absl::Milliseconds(100);
  backend.page().StartCounting(start);
  LoadProgress progress;
  ModeRun run{mode, {}, {}, kBucket};
  std::future<std::vector<Request>> load = std::async(std::launch::async, [&] {
    return RunLoad(
        schedule, start, [&client](Done done) { client.Call(std::move(done)); },
        progress);
  });
  ProgressLine line(label, scenario.phases);
  Conduct(scenario, start, backend, progress, line);
  run.requests = load.get();
  line.Show(scenario.phases.End(), backend, progress);
  line.Finish();
  // The last requests are answered up to a deadline after the end.
  run.attempts =
      backend.page().AttemptsPerBucket(scenario.phases.End() + 2 * kDeadline);
  return run;
}

}  // namespace

std::vector<ModeRun> RunAll(const Scenario& scenario,
                            const std::vector<std::string>& modes) {
  for (const std::string& mode : modes) {
    if (std::find(ModeNames().begin(), ModeNames().end(), mode) ==
        ModeNames().end()) {
      throw std::invalid_argument(absl::StrCat("unknown mode ", mode));
    }
  }
  std::vector<ModeRun> runs;
  runs.reserve(modes.size());
  for (const std::string& mode : modes) {
    runs.push_back(RunMode(
        scenario, mode,
        absl::StrFormat("[%d/%d] %s", runs.size() + 1, modes.size(), mode)));
  }
  return runs;
}

}  // namespace storm
