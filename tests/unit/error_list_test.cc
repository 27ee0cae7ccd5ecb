#include "retry_guard/config/error_list.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace retry_guard {
namespace {

TEST(ErrorListTest, WithoutErrorsTheStatusIsOk) {
  ErrorList errors;
  errors.Warn("odd");
  EXPECT_EQ(errors.ToStatus(), absl::OkStatus());
  EXPECT_THAT(errors.warnings(), ::testing::ElementsAre("service config: odd"));
}

TEST(ErrorListTest, EachErrorHasThePathOfTheOpenScopes) {
  ErrorList errors;
  errors.Add("one");
  {
    const auto a = errors.Key("a");
    {
      const auto index = errors.Index(2);
      const auto b = errors.Key("b");
      errors.Add("two");
    }
    errors.Add("three");
  }
  const auto c = errors.Key("c d");
  errors.Add("four");
  EXPECT_EQ(errors.ToStatus(),
            absl::InvalidArgumentError("service config: one\n"
                                       "a[2].b: two\n"
                                       "a: three\n"
                                       "[\"c d\"]: four"));
}

TEST(QuotedTest, IsOneShortLineOfValidText) {
  EXPECT_EQ(Quoted(""), "\"\"");
  EXPECT_EQ(Quoted("a\"b\n\\"), "\"a\\\"b\\n\\\\\"");
  EXPECT_EQ(Quoted("\u00e9"), "\"\u00e9\"");
  EXPECT_EQ(Quoted(std::string(64, 'a')), "\"" + std::string(64, 'a') + "\"");
  EXPECT_EQ(Quoted(std::string(65, 'a')),
            "\"" + std::string(64, 'a') + "...\"");
  // Not cut in the middle of a character.
  EXPECT_EQ(Quoted(std::string(63, 'a') + "\u00e9b"),
            "\"" + std::string(63, 'a') + "...\"");
}

}  // namespace
}  // namespace retry_guard
