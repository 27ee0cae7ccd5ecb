// Numbers and durations as JSON spells them, read exactly: 0.546 tokens are 546
// thousandths, which a double is not.

#ifndef RETRY_GUARD_CONFIG_SCALARS_H_
#define RETRY_GUARD_CONFIG_SCALARS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "retry_guard/policy/export.h"

namespace retry_guard {

// A decimal number of any size. Immutable.
class RETRY_GUARD_EXPORT Decimal {
 public:
  // The grammar of JSON numbers; nothing for anything else ("NaN", "+1", "1.").
  static std::optional<Decimal> Parse(absl::string_view text);

  bool is_integer() const { return digits_.empty() || exponent_ >= 0; }

  // The value times 10^places, the rest cut off, saturated: Scaled(0) of 2.9 is
  // 2, Scaled(3) of 0.5466 is 546, Scaled(0) of 1e99 the largest int64_t.
  int64_t Scaled(int places) const;

  // The nearest double; infinite when it is too large.
  double ToDouble() const;

 private:
  Decimal() = default;

  std::string text_;
  bool negative_ = false;
  std::string digits_;    // no zeros at either end; empty is 0
  int64_t exponent_ = 0;  // the value is digits * 10^exponent
};

// The longest duration of proto3 JSON.
inline constexpr absl::Duration kMaxJsonDuration =
    absl::Seconds(int64_t{315576000000});

// A proto3 JSON duration: seconds, at most nine decimals, "s". As grpc-go does,
// ".5s" and "1.s" are taken too. What is longer than kMaxJsonDuration is some
// value that is longer, either sign.
RETRY_GUARD_EXPORT std::optional<absl::Duration> ParseJsonDuration(
    absl::string_view text);

// The same as every reader takes it: "0.5s". REQUIRES: not negative, finite.
RETRY_GUARD_EXPORT std::string FormatJsonDuration(absl::Duration duration);

}  // namespace retry_guard

#endif  // RETRY_GUARD_CONFIG_SCALARS_H_
