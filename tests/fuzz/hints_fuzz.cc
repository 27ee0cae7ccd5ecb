// Whatever a server sends as hints: no crash, no wait that is negative, earlier
// than asked or longer than we allow.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "retry_guard/policy/pushback.h"

namespace {

using retry_guard::HintSources;
using retry_guard::PushbackPolicy;
using retry_guard::ReadServerHint;
using retry_guard::ServerHint;

void Require(bool promise) {
  if (!promise) std::abort();
}

// What stands before the next newline; takes it off `rest`.
std::string_view NextLine(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

}  // namespace

// A byte of flags, then a line each of pushback, second pushback and
// retry-after; the rest is the status details.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const uint8_t flags = data[0];
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string_view first = NextLine(rest);
  const std::string_view second = NextLine(rest);
  const std::string_view retry_after = NextLine(rest);

  std::vector<std::string_view> pushback;
  if (flags & 1) pushback.push_back(first);
  if (flags & 2) pushback.push_back(second);
  HintSources sources;
  sources.pushback_ms = pushback;
  if (flags & 4) sources.retry_after = retry_after;
  sources.status_details = rest;

  const ServerHint hint =
      ReadServerHint(sources, absl::FromUnixSeconds(1'000'000'000));
  Require(hint.delay >= absl::ZeroDuration());
  if (!pushback.empty()) Require(hint.source == ServerHint::Source::kPushback);
  if (pushback.size() > 1) Require(hint.stop);

  const PushbackPolicy policy;
  if (!hint.present() || ServerForbidsRetry(hint, policy)) return 0;
  const absl::Duration initial = absl::Milliseconds(100);
  const absl::Duration own = absl::Milliseconds(70);
  for (const double unit : {0.0, 0.5, 0.999999}) {
    const absl::Duration wait = HintedWait(hint, policy, initial, own, unit);
    Require(wait >= absl::ZeroDuration());
    Require(wait >= hint.delay);
    Require(wait <= policy.max_wait * (1 + policy.jitter));
  }
  return 0;
}
