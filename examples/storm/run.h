// Conducts a scenario: a fresh backend per mode, the load on it, and the faults
// at their times.

#ifndef EXAMPLES_STORM_RUN_H_
#define EXAMPLES_STORM_RUN_H_

#include <string>
#include <vector>

#include "modes.h"
#include "report.h"
#include "scenario.h"

namespace storm {

// One run per mode, each with the same arrivals. Shows progress on stderr.
// Throws on an unknown mode, or when the backend does not come up.
std::vector<ModeRun> RunAll(const Scenario& scenario,
                            const std::vector<std::string>& modes);

}  // namespace storm

#endif  // EXAMPLES_STORM_RUN_H_
