#include "retry_guard/config/scalars.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace retry_guard {
namespace {

// Takes the digits off the front of `rest`.
absl::string_view TakeDigits(absl::string_view* rest) {
  size_t size = 0;
  while (size < rest->size() && absl::ascii_isdigit((*rest)[size])) ++size;
  const absl::string_view digits = rest->substr(0, size);
  rest->remove_prefix(size);
  return digits;
}

// Saturated far beyond any exponent that matters.
int64_t ParseExponent(absl::string_view digits) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  int64_t value = 0;
  for (char digit : digits) {
    value = std::min(value * 10 + (digit - '0'), kHuge);
  }
  return value;
}

}  // namespace

std::optional<Decimal> Decimal::Parse(absl::string_view text) {
  Decimal decimal;
  decimal.text_.assign(text.data(), text.size());
  absl::string_view rest = text;
  decimal.negative_ = absl::ConsumePrefix(&rest, "-");

  const absl::string_view whole = TakeDigits(&rest);
  if (whole.empty() || (whole.size() > 1 && whole[0] == '0')) {
    return std::nullopt;
  }
  absl::string_view fraction;
  if (absl::ConsumePrefix(&rest, ".")) {
    fraction = TakeDigits(&rest);
    if (fraction.empty()) return std::nullopt;
  }
  if (absl::ConsumePrefix(&rest, "e") || absl::ConsumePrefix(&rest, "E")) {
    const bool negative = absl::ConsumePrefix(&rest, "-");
    if (!negative) absl::ConsumePrefix(&rest, "+");
    const absl::string_view exponent = TakeDigits(&rest);
    if (exponent.empty()) return std::nullopt;
    decimal.exponent_ =
        negative ? -ParseExponent(exponent) : ParseExponent(exponent);
  }
  if (!rest.empty()) return std::nullopt;

  decimal.exponent_ -= static_cast<int64_t>(fraction.size());
  decimal.digits_ = absl::StrCat(whole, fraction);
  while (!decimal.digits_.empty() && decimal.digits_.back() == '0') {
    decimal.digits_.pop_back();
    ++decimal.exponent_;
  }
  decimal.digits_.erase(0, decimal.digits_.find_first_not_of('0'));
  return decimal;
}

int64_t Decimal::Scaled(int places) const {
  if (digits_.empty()) return 0;
  const int64_t size =
      static_cast<int64_t>(digits_.size()) + exponent_ + places;
  if (size <= 0) return 0;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  if (size > 19) return negative_ ? kMin : kMax;
  std::string integer = digits_;
  integer.resize(static_cast<size_t>(size), '0');
  int64_t value = 0;
  // Saturates by itself.
  if (!absl::SimpleAtoi(integer, &value)) return negative_ ? kMin : kMax;
  return negative_ ? -value : value;
}

double Decimal::ToDouble() const {
  double value = 0;
  // Takes all of the JSON grammar; too large is infinite, too small zero.
  if (!absl::SimpleAtod(text_, &value)) return 0;
  return value;
}

std::optional<absl::Duration> ParseJsonDuration(absl::string_view text) {
  const bool negative = absl::ConsumePrefix(&text, "-");
  absl::string_view whole = TakeDigits(&text);
  absl::string_view decimals;
  if (absl::ConsumePrefix(&text, ".")) decimals = TakeDigits(&text);
  if (text != "s" || decimals.size() > 9) return std::nullopt;
  if (whole.empty() && decimals.empty()) return std::nullopt;

  whole.remove_prefix(std::min(whole.find_first_not_of('0'), whole.size()));
  int64_t seconds = 0;
  int64_t nanos = 0;
  constexpr size_t kTooLong = 13;  // 315576000000 has 12
  if (whole.size() >= kTooLong) whole = "999999999999";
  std::string padded(decimals);
  padded.resize(9, '0');
  if (!whole.empty() && !absl::SimpleAtoi(whole, &seconds)) return std::nullopt;
  if (!absl::SimpleAtoi(padded, &nanos)) return std::nullopt;
  const absl::Duration value =
      absl::Seconds(seconds) + absl::Nanoseconds(nanos);
  return negative ? -value : value;
}

std::string FormatJsonDuration(absl::Duration duration) {
  absl::Duration rest;
  const int64_t seconds = absl::IDivDuration(duration, absl::Seconds(1), &rest);
  std::string text =
      absl::StrFormat("%d.%09d", seconds, absl::ToInt64Nanoseconds(rest));
  text.erase(text.find_last_not_of('0') + 1);
  return absl::StrCat(absl::StripSuffix(text, "."), "s");
}

}  // namespace retry_guard
