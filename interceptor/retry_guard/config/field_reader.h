// Reads the fields of one JSON object into values, strictly. What is wrong goes
// to the ErrorList as `path: what was found; what is allowed`, and the field
// reads as absent, so that reading goes on and finds the rest.
//
//   FieldReader reader(object, known_keys::kBudget, errors);
//   if (auto ratio = reader.Number("ratio", {0, 1})) budget.ratio = *ratio;

#ifndef RETRY_GUARD_CONFIG_FIELD_READER_H_
#define RETRY_GUARD_CONFIG_FIELD_READER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "retry_guard/config/error_list.h"
#include "retry_guard/config/json.h"
#include "retry_guard/config/scalars.h"
#include "retry_guard/policy/status_codes.h"

namespace retry_guard {

// `5`, `"text"`, `an object`: a value as a message shows it.
std::string Found(const JsonValue& value);

// The number that `value` is: written as one or, as gRPC takes it too, as a
// string. Nothing for anything else.
std::optional<Decimal> NumberOf(const JsonValue& value);

struct IntegerRange {
  int64_t min = 0;
  int64_t max = std::numeric_limits<int32_t>::max();  // goes unsaid at first
};

// min to max. With max infinite: any finite number above min.
struct NumberRange {
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
};

// Both ends allowed.
struct DurationRange {
  absl::Duration min = absl::Nanoseconds(1);
  absl::Duration max = kMaxJsonDuration;
};

enum class Presence { kOptional, kRequired };

template <typename T>
struct EnumValue {
  absl::string_view name;
  T value;
};

// Not thread-safe. The object and the list must outlive it.
class FieldReader {
 public:
  // Other keys are somebody else's business.
  FieldReader(const JsonValue& object, ErrorList* errors);

  // Reports every key of `object` that is not known.
  FieldReader(const JsonValue& object,
              absl::Span<const absl::string_view> known_keys,
              ErrorList* errors);

  // The value of that name, unread; null when absent (reported if required;
  // `allowed` tells what to write).
  const JsonValue* Find(absl::string_view key, Presence presence,
                        absl::string_view allowed) const;

  std::optional<int64_t> Integer(absl::string_view key, IntegerRange range,
                                 Presence = Presence::kOptional) const;
  std::optional<double> Number(absl::string_view key, NumberRange range,
                               Presence = Presence::kOptional) const;
  std::optional<absl::Duration> Duration(absl::string_view key,
                                         DurationRange range = {},
                                         Presence = Presence::kOptional) const;
  std::optional<bool> Bool(absl::string_view key) const;
  std::optional<std::string> String(absl::string_view key) const;

  // Names in any case or numbers, not empty, OK not among them.
  std::optional<StatusCodeSet> StatusCodes(
      absl::string_view key, Presence = Presence::kOptional) const;

  // The object of that name; null when absent or no object.
  const JsonValue* Object(absl::string_view key) const;

  // Exactly one of these names.
  template <typename T, size_t kSize>
  std::optional<T> Enum(absl::string_view key,
                        const EnumValue<T> (&values)[kSize]) const {
    absl::string_view names[kSize];
    for (size_t i = 0; i < kSize; ++i) names[i] = values[i].name;
    const std::optional<size_t> index = OneOf(key, names);
    if (!index) return std::nullopt;
    return values[*index].value;
  }

  ErrorList* errors() const { return errors_; }

 private:
  std::optional<size_t> OneOf(absl::string_view key,
                              absl::Span<const absl::string_view> names) const;

  const JsonValue& object_;
  ErrorList* const errors_;
};

// A field that was absent, or wrong, leaves the default that stands in `to`.
template <typename T, typename U>
void Assign(const std::optional<T>& from, U* to) {
  if (from) *to = static_cast<U>(*from);
}

// One element of a status code list.
std::optional<absl::StatusCode> StatusCodeOf(const JsonValue& value);

}  // namespace retry_guard

#endif  // RETRY_GUARD_CONFIG_FIELD_READER_H_
