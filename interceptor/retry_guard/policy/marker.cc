#include "retry_guard/policy/marker.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace retry_guard {
namespace {

// Digits alone, saturated; nothing for anything else.
std::optional<int64_t> ReadDigits(std::string_view text) {
  if (text.empty()) return std::nullopt;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  int64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    const int64_t digit = c - '0';
    value = value > (kMost - digit) / 10 ? kMost : value * 10 + digit;
  }
  return value;
}

}  // namespace

std::string PrintableOwner(std::string_view owner) {
  std::string printable(owner.substr(0, RetryMarker::kLongestOwner));
  for (char& c : printable) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return printable;
}

std::optional<RetryMarker> ReadMarker(const MarkerSources& sources) {
  if (sources.owner.empty() || sources.owner.front().empty()) {
    return std::nullopt;
  }
  RetryMarker marker;
  marker.owner = PrintableOwner(sources.owner.front());
  if (!sources.attempt.empty()) {
    const int64_t attempt = ReadDigits(sources.attempt.front()).value_or(0);
    marker.attempt = static_cast<int>(
        std::min<int64_t>(attempt, std::numeric_limits<int>::max()));
  }
  for (const std::string_view text : sources.remaining_ms) {
    if (const std::optional<int64_t> ms = ReadDigits(text)) {
      marker.remaining = std::min(marker.remaining, absl::Milliseconds(*ms));
    }
  }
  return marker;
}

}  // namespace retry_guard
