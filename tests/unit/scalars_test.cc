#include "retry_guard/config/scalars.h"

#include <cmath>
#include <limits>
#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace retry_guard {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

int64_t Scaled(const std::string& text, int places) {
  const auto decimal = Decimal::Parse(text);
  EXPECT_TRUE(decimal.has_value()) << text;
  return decimal ? decimal->Scaled(places) : -999;
}

TEST(DecimalTest, IsExactWhereADoubleIsNot) {
  EXPECT_EQ(Scaled("0.546", 3), 546);  // 0.546 * 1000 is 545.99...
  EXPECT_EQ(Scaled("0.5466", 3), 546);
  EXPECT_EQ(Scaled("0.0009", 3), 0);
  EXPECT_EQ(Scaled("1", 3), 1000);
  EXPECT_EQ(Scaled("5e-1", 3), 500);
  EXPECT_EQ(Scaled("-0.5466", 3), -546);
  EXPECT_EQ(Scaled("9007199254740993", 0), 9007199254740993);
}

TEST(DecimalTest, KnowsAnIntegerInAnySpelling) {
  for (const char* text : {"5", "5.0", "5.000", "50e-1", "0.5e1", "5e0", "0",
                           "-0", "0.0e-99", "1e400"}) {
    EXPECT_TRUE(Decimal::Parse(text)->is_integer()) << text;
  }
  for (const char* text : {"5.5", "5e-1", "0.1", "1e-400"}) {
    EXPECT_FALSE(Decimal::Parse(text)->is_integer()) << text;
  }
  EXPECT_EQ(Scaled("50e-1", 0), 5);
  EXPECT_EQ(Scaled("0.5e1", 0), 5);
  EXPECT_EQ(Scaled("-0", 0), 0);
}

TEST(DecimalTest, Saturates) {
  EXPECT_EQ(Scaled("9223372036854775807", 0), kMax);
  EXPECT_EQ(Scaled("9223372036854775808", 0), kMax);
  EXPECT_EQ(Scaled("-9223372036854775809", 0), kMin);
  EXPECT_EQ(Scaled("1e400", 0), kMax);
  EXPECT_EQ(Scaled("1e99999999999999999999999", 3), kMax);
  EXPECT_EQ(Scaled("-1e99999999999999999999999", 3), kMin);
  EXPECT_EQ(Scaled("1e-99999999999999999999999", 3), 0);
  EXPECT_TRUE(std::isinf(Decimal::Parse("1e400")->ToDouble()));
  EXPECT_EQ(Decimal::Parse("1e-400")->ToDouble(), 0);
  EXPECT_EQ(Decimal::Parse("-1.6")->ToDouble(), -1.6);
}

TEST(DecimalTest, TakesNothingButJsonNumbers) {
  for (const char* text : {"", "-", "+1", "01", "1.", ".5", "1e", "1e+", "0x1",
                           "nan", "inf", " 1", "1 ", "1s", "1.2.3", "--1"}) {
    EXPECT_FALSE(Decimal::Parse(text).has_value()) << text;
  }
}

TEST(JsonDurationTest, SecondsWithUpToNineDecimals) {
  EXPECT_EQ(ParseJsonDuration("1s"), absl::Seconds(1));
  EXPECT_EQ(ParseJsonDuration("1.5s"), absl::Milliseconds(1500));
  EXPECT_EQ(ParseJsonDuration("0.000000001s"), absl::Nanoseconds(1));
  EXPECT_EQ(ParseJsonDuration("5000.000000009s"),
            absl::Seconds(5000) + absl::Nanoseconds(9));
  EXPECT_EQ(ParseJsonDuration("315576000000s"), kMaxJsonDuration);
  EXPECT_EQ(ParseJsonDuration("0001s"), absl::Seconds(1));
  EXPECT_EQ(ParseJsonDuration("-1.5s"), -absl::Milliseconds(1500));
}

TEST(JsonDurationTest, ADotMayStandAtEitherEnd) {
  EXPECT_EQ(ParseJsonDuration(".050s"), absl::Milliseconds(50));
  EXPECT_EQ(ParseJsonDuration("1.s"), absl::Seconds(1));
  EXPECT_EQ(ParseJsonDuration("-.001s"), -absl::Milliseconds(1));
}

TEST(JsonDurationTest, TooLongIsLongerThanTheLongest) {
  EXPECT_GT(*ParseJsonDuration("315576000000.000000001s"), kMaxJsonDuration);
  EXPECT_GT(*ParseJsonDuration("315576000001s"), kMaxJsonDuration);
  EXPECT_GT(*ParseJsonDuration(std::string(500, '9') + "s"), kMaxJsonDuration);
  EXPECT_LT(*ParseJsonDuration("-315576000001s"), -kMaxJsonDuration);
}

TEST(JsonDurationTest, AnythingElseIsNone) {
  for (const char* text :
       {"",       "s",    ".s",           "-s",   "-.s",           "1",
        "1sec",   "1ms",  "5m",           "1 s",  " 1s",           "1s ",
        "+1s",    "1e3s", "5.3.2s",       "3.xs", "3.1234567890s", "1.-5s",
        "-1.-5s", "as",   ".0000000001s", "1S",   "0x1s",          "infs"}) {
    EXPECT_FALSE(ParseJsonDuration(text).has_value()) << text;
  }
}

TEST(JsonDurationTest, FormatsAsEveryReaderTakesIt) {
  EXPECT_EQ(FormatJsonDuration(absl::ZeroDuration()), "0s");
  EXPECT_EQ(FormatJsonDuration(absl::Milliseconds(50)), "0.05s");
  EXPECT_EQ(FormatJsonDuration(absl::Seconds(100)), "100s");
  EXPECT_EQ(FormatJsonDuration(absl::Nanoseconds(1)), "0.000000001s");
  EXPECT_EQ(FormatJsonDuration(kMaxJsonDuration), "315576000000s");
}

}  // namespace
}  // namespace retry_guard
