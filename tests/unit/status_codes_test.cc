#include "retry_guard/policy/status_codes.h"

#include <cctype>
#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace retry_guard {
namespace {

TEST(StatusCodesTest, NamesAreThoseOfTheServiceConfig) {
  EXPECT_EQ(StatusCodeName(absl::StatusCode::kOk), "OK");
  EXPECT_EQ(StatusCodeName(absl::StatusCode::kCancelled), "CANCELLED");
  EXPECT_EQ(StatusCodeName(absl::StatusCode::kUnavailable), "UNAVAILABLE");
  EXPECT_EQ(StatusCodeName(absl::StatusCode::kUnauthenticated),
            "UNAUTHENTICATED");
  EXPECT_EQ(StatusCodeName(static_cast<absl::StatusCode>(99)), "UNKNOWN");
}

TEST(StatusCodesTest, EveryNameLeadsBackInAnyCase) {
  for (int code = 0; code <= 16; ++code) {
    const auto expected = static_cast<absl::StatusCode>(code);
    std::string name(StatusCodeName(expected));
    EXPECT_EQ(StatusCodeFromName(name), expected);
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    EXPECT_EQ(StatusCodeFromName(name), expected);
  }
}

TEST(StatusCodesTest, OtherNamesAreNone) {
  for (std::string_view name :
       {"", "CANCELED", "UNAVAILABLE ", "14", "kUnavailable"}) {
    EXPECT_EQ(StatusCodeFromName(name), std::nullopt) << name;
  }
}

TEST(StatusCodesTest, CodesOutsideTheEnumAreUnknown) {
  EXPECT_EQ(SanitizeStatusCode(0), absl::StatusCode::kOk);
  EXPECT_EQ(SanitizeStatusCode(16), absl::StatusCode::kUnauthenticated);
  for (int raw : {-1, 17, 99, std::numeric_limits<int>::max(),
                  std::numeric_limits<int>::min()}) {
    EXPECT_EQ(SanitizeStatusCode(raw), absl::StatusCode::kUnknown) << raw;
  }
}

TEST(StatusCodeSetTest, HoldsWhatWasAdded) {
  StatusCodeSet set;
  EXPECT_TRUE(set.empty());
  set.Add(absl::StatusCode::kOk);
  set.Add(absl::StatusCode::kUnauthenticated);
  EXPECT_FALSE(set.empty());
  EXPECT_TRUE(set.Contains(absl::StatusCode::kOk));
  EXPECT_TRUE(set.Contains(absl::StatusCode::kUnauthenticated));
  EXPECT_FALSE(set.Contains(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(set == StatusCodeSet({absl::StatusCode::kUnauthenticated,
                                    absl::StatusCode::kOk}));
  EXPECT_FALSE(set == StatusCodeSet({absl::StatusCode::kOk}));
}

}  // namespace
}  // namespace retry_guard
