// Whatever comes in as a marker: no crash, and what is sent on is fit to be
// sent.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "retry_guard/policy/marker.h"

namespace {

void Require(bool promise) {
  if (!promise) std::abort();
}

}  // namespace

// A line each; the first character says which of the three keys it is of.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::vector<std::string_view> owner;
  std::vector<std::string_view> attempt;
  std::vector<std::string_view> remaining;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    auto& values = line[0] == 'o'   ? owner
                   : line[0] == 'a' ? attempt
                                    : remaining;
    values.push_back(line.substr(1));
  }
  retry_guard::MarkerSources sources;
  sources.owner = owner;
  sources.attempt = attempt;
  sources.remaining_ms = remaining;
  const auto marker = retry_guard::ReadMarker(sources);
  if (!marker.has_value()) return 0;
  Require(!marker->owner.empty());
  Require(marker->owner.size() <= retry_guard::RetryMarker::kLongestOwner);
  for (const char c : marker->owner) Require(c >= 0x20 && c <= 0x7e);
  Require(marker->attempt >= 0);
  Require(marker->remaining >= absl::ZeroDuration());
  return 0;
}
