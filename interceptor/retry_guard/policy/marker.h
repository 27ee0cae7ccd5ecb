// The marker that one layer of a chain leaves for the ones below: who retries
// this call, which attempt it is, and how long the whole call has left.
//
// It comes from another process, maybe from outside: whatever it says, reading
// it is safe, and what is malformed is left out.

#ifndef RETRY_GUARD_POLICY_MARKER_H_
#define RETRY_GUARD_POLICY_MARKER_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "retry_guard/policy/export.h"

namespace retry_guard {

struct RetryMarker {
  std::string owner;  // never empty; at most kLongestOwner bytes
  int attempt = 0;    // from 1; 0: not said
  absl::Duration remaining = absl::InfiniteDuration();  // infinite: no deadline

  static constexpr size_t kLongestOwner = 128;
};

// All values of `retry-owner`, `retry-attempt`, `retry-remaining-ms`.
struct MarkerSources {
  absl::Span<const std::string_view> owner;
  absl::Span<const std::string_view> attempt;
  absl::Span<const std::string_view> remaining_ms;
};

// Nothing without an owner. Of several owners (a proxy has appended instead of
// replaced) the first; of several times the shortest. An owner is cut to
// kLongestOwner, and what is not printable ASCII in it becomes '?', since it is
// sent on. Times are saturated.
RETRY_GUARD_EXPORT std::optional<RetryMarker> ReadMarker(
    const MarkerSources& sources);

// `owner` as it can travel: cut and cleaned as above.
RETRY_GUARD_EXPORT std::string PrintableOwner(std::string_view owner);

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_MARKER_H_
