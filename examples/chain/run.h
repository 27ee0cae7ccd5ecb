// Conducts a run: a fresh chain per mode, users' requests into it, and what its
// layers saw of them.

#ifndef EXAMPLES_CHAIN_RUN_H_
#define EXAMPLES_CHAIN_RUN_H_

#include "report.h"
#include "scenario.h"

namespace chain {

// Throws when a layer does not come up, or answers anything else than it
// should.
ModeRun RunMode(Mode mode, int layers, int user_requests);

}  // namespace chain

#endif  // EXAMPLES_CHAIN_RUN_H_
