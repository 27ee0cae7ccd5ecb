// One element of `methodConfig`, without its names.

#ifndef RETRY_GUARD_CONFIG_METHOD_CONFIG_READER_H_
#define RETRY_GUARD_CONFIG_METHOD_CONFIG_READER_H_

#include "retry_guard/config/error_list.h"
#include "retry_guard/config/json.h"
#include "retry_guard/config/source_edits.h"
#include "retry_guard/policy/method_policy.h"

namespace retry_guard {

// REQUIRES: `method_config` is an object. What core would refuse or misread is
// respelt in `for_core`.
MethodPolicy ReadMethodConfig(const JsonValue& method_config, ErrorList* errors,
                              SourceEdits* for_core);

}  // namespace retry_guard

#endif  // RETRY_GUARD_CONFIG_METHOD_CONFIG_READER_H_
