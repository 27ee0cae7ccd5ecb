// Sets of gRPC status codes, and their names as the service config spells them.

#ifndef RETRY_GUARD_POLICY_STATUS_CODES_H_
#define RETRY_GUARD_POLICY_STATUS_CODES_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "retry_guard/policy/export.h"

namespace retry_guard {

// A value; a bit per code 0 to 16.
class StatusCodeSet {
 public:
  constexpr StatusCodeSet() = default;
  constexpr StatusCodeSet(std::initializer_list<absl::StatusCode> codes) {
    for (absl::StatusCode code : codes) Add(code);
  }

  constexpr void Add(absl::StatusCode code) { bits_ |= Bit(code); }
  constexpr bool Contains(absl::StatusCode code) const {
    return (bits_ & Bit(code)) != 0;
  }
  constexpr bool empty() const { return bits_ == 0; }

  friend constexpr bool operator==(StatusCodeSet a, StatusCodeSet b) {
    return a.bits_ == b.bits_;
  }

 private:
  static constexpr uint32_t Bit(absl::StatusCode code) {
    return uint32_t{1} << static_cast<uint32_t>(code);
  }

  uint32_t bits_ = 0;
};

// A peer may send any number as its status. Those outside 0..16 are UNKNOWN
// here, so that nothing is ever indexed with them.
constexpr absl::StatusCode SanitizeStatusCode(int raw) {
  return raw >= 0 && raw <= 16 ? static_cast<absl::StatusCode>(raw)
                               : absl::StatusCode::kUnknown;
}

// "UNAVAILABLE" and the like, always upper case ("CANCELLED" with two Ls,
// "OK").
RETRY_GUARD_EXPORT std::string_view StatusCodeName(absl::StatusCode code);

// The code of a name in any case; nothing for a name that is none.
RETRY_GUARD_EXPORT std::optional<absl::StatusCode> StatusCodeFromName(
    std::string_view name);

}  // namespace retry_guard

#endif  // RETRY_GUARD_POLICY_STATUS_CODES_H_
