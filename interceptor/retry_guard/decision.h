// What was decided about a call, and why: see policy/decision.h.

#ifndef RETRY_GUARD_DECISION_H_
#define RETRY_GUARD_DECISION_H_

#include "retry_guard/policy/decision.h"  // IWYU pragma: export

#endif  // RETRY_GUARD_DECISION_H_
