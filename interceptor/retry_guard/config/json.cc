#include "retry_guard/config/json.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

// A namespace of our own: the program around us may use RapidJSON with other
// macros, and two meanings of one inline function end badly.
#define RAPIDJSON_NAMESPACE retry_guard_rapidjson
#define RAPIDJSON_NAMESPACE_BEGIN namespace retry_guard_rapidjson {
#define RAPIDJSON_NAMESPACE_END }
#include "rapidjson/error/en.h"
#include "rapidjson/memorystream.h"
#include "rapidjson/reader.h"

namespace retry_guard {
namespace {

namespace rapidjson = ::retry_guard_rapidjson;

constexpr unsigned kFlags =
    rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag |
    rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseFullPrecisionFlag;

// The reader checks the text itself, but an escape can still name half of a
// surrogate pair ("\udc00"), which decodes to ED A0..BF.
bool HasLoneSurrogate(absl::string_view text) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '\xED' && static_cast<unsigned char>(text[i + 1]) >= 0xA0) {
      return true;
    }
  }
  return false;
}

// Builds the tree from the reader's events.
class TreeBuilder {
 public:
  using Kind = JsonValue::Kind;

  TreeBuilder(absl::string_view source, const rapidjson::MemoryStream* stream)
      : source_(source), stream_(stream) {}

  bool Null() {
    Scalar(Kind::kNull);
    return true;
  }
  bool Bool(bool value) {
    Scalar(Kind::kBool);
    last_->boolean = value;
    return true;
  }
  bool RawNumber(const char*, rapidjson::SizeType, bool) {
    Scalar(Kind::kNumber);
    last_->text.assign(source_.data() + last_->begin,
                       last_->end - last_->begin);
    return true;
  }
  bool String(const char* data, rapidjson::SizeType size, bool) {
    Scalar(Kind::kString);
    last_->text.assign(data, size);
    return CheckUnicode(last_->text, last_->begin);
  }
  bool Key(const char* data, rapidjson::SizeType size, bool) {
    const size_t begin = NextToken();
    position_ = stream_->Tell();
    key_.assign(data, size);
    return CheckUnicode(key_, begin);
  }
  bool StartObject() { return Start(Kind::kObject); }
  bool StartArray() { return Start(Kind::kArray); }
  bool EndObject(rapidjson::SizeType) { return End(); }
  bool EndArray(rapidjson::SizeType) { return End(); }

  // With numbers as strings the reader never calls these.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(int64_t) { return false; }
  bool Uint64(uint64_t) { return false; }
  bool Double(double) { return false; }

  struct Refusal {
    size_t offset;
    absl::string_view reason;
  };
  const std::optional<Refusal>& refusal() const { return refusal_; }

  JsonValue TakeRoot() { return std::move(root_); }

 private:
  // Where the token that is being reported begins.
  size_t NextToken() const {
    return std::min(source_.find_first_not_of(" \t\r\n,:", position_),
                    source_.size());
  }

  JsonValue* Place() {
    if (open_.empty()) return &root_;
    JsonValue* parent = open_.back();
    if (parent->is(Kind::kArray)) return &parent->elements.emplace_back();
    parent->members.push_back({std::move(key_), JsonValue()});
    return &parent->members.back().value;
  }

  void Scalar(Kind kind) {
    last_ = Place();
    last_->kind = kind;
    last_->begin = NextToken();
    last_->end = position_ = stream_->Tell();
  }

  // The reader calls this, and End, before it takes the bracket.
  bool Start(Kind kind) {
    const size_t begin = stream_->Tell();
    if (open_.size() >= static_cast<size_t>(kMaxJsonDepth)) {
      refusal_ = {begin, "nested too deeply"};
      return false;
    }
    JsonValue* value = Place();
    value->kind = kind;
    value->begin = begin;
    position_ = begin + 1;
    // Stays put while it is open: only the innermost list grows.
    open_.push_back(value);
    return true;
  }

  bool End() {
    open_.back()->end = position_ = stream_->Tell() + 1;
    open_.pop_back();
    return true;
  }

  bool CheckUnicode(absl::string_view text, size_t offset) {
    if (!HasLoneSurrogate(text)) return true;
    refusal_ = {offset, "half of a surrogate pair in a string"};
    return false;
  }

  const absl::string_view source_;
  const rapidjson::MemoryStream* const stream_;
  size_t position_ = 0;  // after the last token
  std::string key_;
  JsonValue root_;
  JsonValue* last_ = nullptr;
  std::vector<JsonValue*> open_;
  std::optional<Refusal> refusal_;
};

absl::Status ErrorAt(absl::string_view source, size_t offset,
                     absl::string_view reason) {
  const absl::string_view before = source.substr(0, offset);
  const size_t newline = before.rfind('\n');
  const size_t column = newline == absl::string_view::npos
                            ? before.size()
                            : before.size() - newline - 1;
  return absl::InvalidArgumentError(
      absl::StrCat("line ", std::count(before.begin(), before.end(), '\n') + 1,
                   ", column ", column + 1, ": ", reason));
}

}  // namespace

const JsonValue* JsonValue::Find(absl::string_view key) const {
  for (const JsonMember& member : members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

absl::StatusOr<JsonValue> ParseJson(absl::string_view source) {
  rapidjson::MemoryStream stream(source.data(), source.size());
  TreeBuilder builder(source, &stream);
  rapidjson::Reader reader;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
  if (builder.refusal()) {
    return ErrorAt(source, builder.refusal()->offset,
                   builder.refusal()->reason);
  }
  if (!result) {
    std::string reason = rapidjson::GetParseError_En(result.Code());
    if (absl::EndsWith(reason, ".")) reason.pop_back();
    reason[0] = absl::ascii_tolower(static_cast<unsigned char>(reason[0]));
    return ErrorAt(source, result.Offset(), reason);
  }
  // To the reader a zero byte is the end.
  if (stream.Tell() != source.size()) {
    return ErrorAt(source, stream.Tell(), "a zero byte");
  }
  return builder.TakeRoot();
}

}  // namespace retry_guard
