#include "retry_guard/config/field_reader.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "retry_guard/config/spelling.h"
#include "retry_guard/policy/absl_view.h"

namespace retry_guard {
namespace {

std::string Allowed(IntegerRange range, bool name_max = false) {
  if (range.max == IntegerRange().max && !name_max) {
    return absl::StrCat("an integer of ", range.min, " or more");
  }
  return absl::StrCat("an integer from ", range.min, " to ", range.max);
}

std::string Allowed(NumberRange range) {
  if (std::isinf(range.max)) {
    return absl::StrCat("a finite number above ", range.min);
  }
  return absl::StrCat("a number from ", range.min, " to ", range.max);
}

std::string Allowed(DurationRange range) {
  if (range.min == DurationRange().min) {
    return absl::StrCat(R"(more than "0s", at most ")",
                        FormatJsonDuration(range.max), "\"");
  }
  return absl::StrCat("\"", FormatJsonDuration(range.min), "\" to \"",
                      FormatJsonDuration(range.max), "\"");
}

constexpr absl::string_view kAllowedDuration =
    R"(seconds with an "s", such as "0.1s")";
constexpr absl::string_view kAllowedCode =
    R"(a name such as "UNAVAILABLE" or a number from 1 to 16)";
constexpr absl::string_view kAllowedCodes =
    R"(a list of status codes, such as ["UNAVAILABLE"])";

std::string AllowedNames(absl::Span<const absl::string_view> names) {
  const auto quote = [](std::string* out, absl::string_view name) {
    absl::StrAppend(out, "\"", name, "\"");
  };
  if (names.size() == 1) return absl::StrCat("\"", names[0], "\"");
  return absl::StrCat(
      absl::StrJoin(names.subspan(0, names.size() - 1), ", ", quote), " or \"",
      names.back(), "\"");
}

void AddOutOfRange(ErrorList* errors, const JsonValue& value,
                   absl::string_view allowed) {
  errors->Add(absl::StrCat(Found(value), " is out of range; write ", allowed));
}

void AddWrongType(ErrorList* errors, const JsonValue& value,
                  absl::string_view type, absl::string_view allowed) {
  errors->Add(absl::StrCat(Found(value), " is no ", type, "; write ", allowed));
}

std::string MaybeStatusCode(const JsonValue& value) {
  if (!value.is(JsonValue::Kind::kString)) return "";
  std::vector<absl::string_view> names;
  for (int code = 1; code <= 16; ++code) {
    names.push_back(
        AbslView(StatusCodeName(static_cast<absl::StatusCode>(code))));
  }
  return DidYouMean(value.text, names);
}

}  // namespace

std::string Found(const JsonValue& value) {
  constexpr size_t kLongest = 40;
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBool:
      return value.boolean ? "true" : "false";
    case JsonValue::Kind::kNumber:
      if (value.text.size() <= kLongest) return value.text;
      return absl::StrCat(value.text.substr(0, kLongest), "...");
    case JsonValue::Kind::kString:
      return Quoted(value.text);
    case JsonValue::Kind::kArray:
      return value.elements.empty() ? "an empty list" : "a list";
    case JsonValue::Kind::kObject:
      return "an object";
  }
  return "";
}

std::optional<Decimal> NumberOf(const JsonValue& value) {
  if (!value.is(JsonValue::Kind::kNumber) &&
      !value.is(JsonValue::Kind::kString)) {
    return std::nullopt;
  }
  return Decimal::Parse(value.text);
}

std::optional<absl::StatusCode> StatusCodeOf(const JsonValue& value) {
  if (value.is(JsonValue::Kind::kString)) return StatusCodeFromName(value.text);
  if (!value.is(JsonValue::Kind::kNumber)) return std::nullopt;
  const std::optional<Decimal> number = Decimal::Parse(value.text);
  if (!number || !number->is_integer()) return std::nullopt;
  const int64_t code = number->Scaled(0);
  if (code < 0 || code > 16) return std::nullopt;
  return static_cast<absl::StatusCode>(code);
}

FieldReader::FieldReader(const JsonValue& object, ErrorList* errors)
    : object_(object), errors_(errors) {}

FieldReader::FieldReader(const JsonValue& object,
                         absl::Span<const absl::string_view> known_keys,
                         ErrorList* errors)
    : object_(object), errors_(errors) {
  for (const JsonMember& member : object.members) {
    bool known = false;
    for (absl::string_view key : known_keys) known |= key == member.key;
    if (known) continue;
    const auto scope = errors->Key(member.key);
    std::string help = DidYouMean(member.key, known_keys);
    if (help.empty()) {
      help = absl::StrCat("; known are ", absl::StrJoin(known_keys, ", "));
    }
    errors->Add(absl::StrCat("unknown key", help));
  }
}

const JsonValue* FieldReader::Find(absl::string_view key, Presence presence,
                                   absl::string_view allowed) const {
  const JsonValue* value = object_.Find(key);
  if (value == nullptr && presence == Presence::kRequired) {
    const auto scope = errors_->Key(key);
    errors_->Add(absl::StrCat("missing; write ", allowed));
  }
  return value;
}

std::optional<int64_t> FieldReader::Integer(absl::string_view key,
                                            IntegerRange range,
                                            Presence presence) const {
  const std::string allowed = Allowed(range);
  const JsonValue* value = Find(key, presence, allowed);
  if (value == nullptr) return std::nullopt;
  const auto scope = errors_->Key(key);
  const std::optional<Decimal> number = NumberOf(*value);
  if (!number || !number->is_integer()) {
    AddWrongType(errors_, *value, "integer", allowed);
    return std::nullopt;
  }
  const int64_t integer = number->Scaled(0);
  if (integer < range.min || integer > range.max) {
    AddOutOfRange(errors_, *value, Allowed(range, integer > range.max));
    return std::nullopt;
  }
  return integer;
}

std::optional<double> FieldReader::Number(absl::string_view key,
                                          NumberRange range,
                                          Presence presence) const {
  const std::string allowed = Allowed(range);
  const JsonValue* value = Find(key, presence, allowed);
  if (value == nullptr) return std::nullopt;
  const auto scope = errors_->Key(key);
  const std::optional<Decimal> decimal = NumberOf(*value);
  if (!decimal) {
    AddWrongType(errors_, *value, "number", allowed);
    return std::nullopt;
  }
  const double number = decimal->ToDouble();
  const bool open = std::isinf(range.max);
  if (std::isinf(number) || (open ? number <= range.min : number < range.min) ||
      number > range.max) {
    AddOutOfRange(errors_, *value, allowed);
    return std::nullopt;
  }
  return number;
}

std::optional<absl::Duration> FieldReader::Duration(absl::string_view key,
                                                    DurationRange range,
                                                    Presence presence) const {
  const JsonValue* value = Find(key, presence, kAllowedDuration);
  if (value == nullptr) return std::nullopt;
  const auto scope = errors_->Key(key);
  std::optional<absl::Duration> duration;
  if (value->is(JsonValue::Kind::kString)) {
    duration = ParseJsonDuration(value->text);
  }
  if (!duration) {
    AddWrongType(errors_, *value, "duration", kAllowedDuration);
    return std::nullopt;
  }
  if (*duration < range.min || *duration > range.max) {
    AddOutOfRange(errors_, *value, Allowed(range));
    return std::nullopt;
  }
  return duration;
}

std::optional<bool> FieldReader::Bool(absl::string_view key) const {
  const JsonValue* value = object_.Find(key);
  if (value == nullptr) return std::nullopt;
  const auto scope = errors_->Key(key);
  if (!value->is(JsonValue::Kind::kBool)) {
    AddWrongType(errors_, *value, "boolean", "true or false, without quotes");
    return std::nullopt;
  }
  return value->boolean;
}

std::optional<std::string> FieldReader::String(absl::string_view key) const {
  const JsonValue* value = object_.Find(key);
  if (value == nullptr) return std::nullopt;
  const auto scope = errors_->Key(key);
  if (!value->is(JsonValue::Kind::kString)) {
    AddWrongType(errors_, *value, "text", "a name in quotes");
    return std::nullopt;
  }
  return value->text;
}

std::optional<StatusCodeSet> FieldReader::StatusCodes(absl::string_view key,
                                                      Presence presence) const {
  const JsonValue* value = Find(key, presence, kAllowedCodes);
  if (value == nullptr) return std::nullopt;
  const auto scope = errors_->Key(key);
  if (!value->is(JsonValue::Kind::kArray)) {
    AddWrongType(errors_, *value, "list", kAllowedCodes);
    return std::nullopt;
  }
  if (value->elements.empty()) {
    errors_->Add(absl::StrCat("an empty list; write ", kAllowedCodes));
    return std::nullopt;
  }
  StatusCodeSet codes;
  bool good = true;
  for (size_t i = 0; i < value->elements.size(); ++i) {
    const auto element_scope = errors_->Index(i);
    const JsonValue& element = value->elements[i];
    const std::optional<absl::StatusCode> code = StatusCodeOf(element);
    if (code && *code != absl::StatusCode::kOk) {
      codes.Add(*code);
      continue;
    }
    good = false;
    errors_->Add(absl::StrCat(
        Found(element), code ? " is no failure" : " is no status code",
        "; write ", kAllowedCode, code ? "" : MaybeStatusCode(element)));
  }
  if (!good) return std::nullopt;
  return codes;
}

const JsonValue* FieldReader::Object(absl::string_view key) const {
  const JsonValue* value = object_.Find(key);
  if (value == nullptr) return nullptr;
  const auto scope = errors_->Key(key);
  if (!value->is(JsonValue::Kind::kObject)) {
    AddWrongType(errors_, *value, "object", "{...}, or leave the key out");
    return nullptr;
  }
  return value;
}

std::optional<size_t> FieldReader::OneOf(
    absl::string_view key, absl::Span<const absl::string_view> names) const {
  const JsonValue* value = object_.Find(key);
  if (value == nullptr) return std::nullopt;
  const auto scope = errors_->Key(key);
  if (!value->is(JsonValue::Kind::kString)) {
    AddWrongType(errors_, *value, "text", AllowedNames(names));
    return std::nullopt;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (value->text == names[i]) return i;
  }
  errors_->Add(absl::StrCat(Found(*value), " is unknown; write ",
                            AllowedNames(names),
                            DidYouMean(value->text, names)));
  return std::nullopt;
}

}  // namespace retry_guard
