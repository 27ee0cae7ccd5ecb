#include "retry_guard/config/json.h"

#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace retry_guard {
namespace {

using Kind = JsonValue::Kind;
using ::testing::ElementsAre;
using ::testing::Field;

JsonValue MustParse(const std::string& source) {
  auto value = ParseJson(source);
  EXPECT_TRUE(value.ok()) << source << ": " << value.status();
  return value.ok() ? *std::move(value) : JsonValue();
}

std::string ErrorOf(const std::string& source) {
  const auto value = ParseJson(source);
  EXPECT_FALSE(value.ok()) << source;
  EXPECT_EQ(value.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(value.status().message());
}

std::string Nested(int depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(JsonTest, EveryKindOfValueIsRead) {
  EXPECT_EQ(MustParse("null").kind, Kind::kNull);
  EXPECT_TRUE(MustParse("true").boolean);
  EXPECT_FALSE(MustParse("false").boolean);
  EXPECT_EQ(MustParse("\"a\\u00e9\\n\"").text, "a\u00e9\n");
  EXPECT_EQ(MustParse("[1, 2]").elements.size(), 2u);
  EXPECT_EQ(MustParse("{\"a\": 1}").members.size(), 1u);
  EXPECT_TRUE(MustParse("{}").is(Kind::kObject));
  EXPECT_TRUE(MustParse(" [ ] ").is(Kind::kArray));
}

TEST(JsonTest, NumbersKeepTheirSpelling) {
  for (const char* number :
       {"0", "-0", "1.0", "1.50", "1E5", "1e+05", "-1.2e-3",
        "123456789012345678901234567890", "0.1000000000000000055511151231"}) {
    const JsonValue value = MustParse(number);
    EXPECT_EQ(value.kind, Kind::kNumber);
    EXPECT_EQ(value.text, number);
  }
}

TEST(JsonTest, DuplicateKeysStayVisibleInTheirOrder) {
  const JsonValue value = MustParse(R"({"a": 1, "b": 2, "a": 3})");
  EXPECT_THAT(value.members, ElementsAre(Field(&JsonMember::key, "a"),
                                         Field(&JsonMember::key, "b"),
                                         Field(&JsonMember::key, "a")));
  EXPECT_EQ(value.Find("a")->text, "1");
  EXPECT_EQ(value.Find("c"), nullptr);
}

TEST(JsonTest, EveryValueKnowsItsPlace) {
  const std::string source =
      " { \"a\\\"b\" : [ 1.5 , \"x\\u0041\" , null,{ } ],\n\"c\":true } ";
  const JsonValue root = MustParse(source);
  const auto text = [&](const JsonValue& value) {
    return source.substr(value.begin, value.end - value.begin);
  };
  EXPECT_EQ(text(root), source.substr(1, source.size() - 2));
  const JsonValue& list = *root.Find("a\"b");
  EXPECT_EQ(text(list), "[ 1.5 , \"x\\u0041\" , null,{ } ]");
  EXPECT_EQ(text(list.elements[0]), "1.5");
  EXPECT_EQ(text(list.elements[1]), "\"x\\u0041\"");
  EXPECT_EQ(text(list.elements[2]), "null");
  EXPECT_EQ(text(list.elements[3]), "{ }");
  EXPECT_EQ(text(*root.Find("c")), "true");
}

TEST(JsonTest, SyntaxErrorsSayWhere) {
  EXPECT_EQ(ErrorOf(""), "line 1, column 1: the document is empty");
  EXPECT_EQ(ErrorOf("{\n  \"a\": 1\n  \"b\": 2\n}"),
            "line 3, column 3: missing a comma or '}' after an object member");
  EXPECT_EQ(ErrorOf("[1,]"), "line 1, column 4: invalid value");
  EXPECT_EQ(ErrorOf("{} x"),
            "line 1, column 4: the document root must not be followed by "
            "other values");
  EXPECT_EQ(ErrorOf("{\"a\": 123s}"),
            "line 1, column 10: missing a comma or '}' after an object member");
}

TEST(JsonTest, WhatIsNoJsonIsRefused) {
  for (const char* source :
       {"NaN",      "Infinity", "-Infinity", "[nan]", "+1",        "01",
        "1.",       ".5",       "1e",        "0x10",  "'a'",       "{a: 1}",
        "[1 2]",    "// c\n1",  "/* c */ 1", "tru",   "\"a",       "{\"a\"}",
        "{\"a\":}", "[",        "{",         "]",     "\"\\x41\"", "\"\t\""}) {
    EXPECT_FALSE(ParseJson(source).ok()) << source;
  }
}

TEST(JsonTest, AZeroByteDoesNotHideWhatFollows) {
  const std::string source("{}\0{}", 5);
  EXPECT_EQ(ErrorOf(source), "line 1, column 3: a zero byte");
  EXPECT_FALSE(ParseJson(std::string("{\"a\0\": 1}", 9)).ok());
}

TEST(JsonTest, InvalidUnicodeIsRefused) {
  EXPECT_EQ(ErrorOf("\"\xff\""),
            "line 1, column 2: invalid encoding in string");
  // Overlong, a surrogate in UTF-8, beyond U+10FFFF, cut short.
  for (const char* source : {"\"\xc0\xaf\"", "\"\xed\xa0\x80\"",
                             "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\"", "\xff"}) {
    EXPECT_FALSE(ParseJson(source).ok());
  }
  EXPECT_EQ(ErrorOf("[\"\\udc00\"]"),
            "line 1, column 2: half of a surrogate pair in a string");
  EXPECT_FALSE(ParseJson("\"\\ud83d\"").ok());
  EXPECT_FALSE(ParseJson("\"\\ud83d\\u0041\"").ok());
  EXPECT_FALSE(ParseJson("{\"\\udc00\": 1}").ok());
  EXPECT_EQ(MustParse("\"\\ud83d\\ude00\"").text, "\U0001F600");
}

TEST(JsonTest, NestingIsBounded) {
  EXPECT_TRUE(ParseJson(Nested(kMaxJsonDepth)).ok());
  EXPECT_EQ(ErrorOf(Nested(kMaxJsonDepth + 1)),
            "line 1, column 65: nested too deeply");
}

TEST(JsonTest, DeepNestingDoesNotEatTheStack) {
  EXPECT_FALSE(ParseJson(std::string(10'000'000, '[')).ok());
  std::string objects;
  for (int i = 0; i < 1'000'000; ++i) objects += "{\"a\":";
  EXPECT_FALSE(ParseJson(objects).ok());
}

}  // namespace
}  // namespace retry_guard
