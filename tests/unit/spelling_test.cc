#include "retry_guard/config/spelling.h"

#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace retry_guard {
namespace {

constexpr absl::string_view kKeys[] = {"maxAttempts",    "maxBackoff",
                                       "initialBackoff", "ratio",
                                       "openFor",        "maxOpenFor"};

TEST(SpellingTest, OneSlipOfEachKindIsForgiven) {
  EXPECT_EQ(ClosestSpelling("maxAttemps", kKeys), "maxAttempts");
  EXPECT_EQ(ClosestSpelling("maxxAttempts", kKeys), "maxAttempts");
  EXPECT_EQ(ClosestSpelling("maxAttenpts", kKeys), "maxAttempts");
  EXPECT_EQ(ClosestSpelling("maxAttepmts", kKeys), "maxAttempts");
  EXPECT_EQ(ClosestSpelling("raito", kKeys), "ratio");
}

TEST(SpellingTest, CaseAndSeparatorsDoNotCount) {
  EXPECT_EQ(ClosestSpelling("MAX_ATTEMPTS", kKeys), "maxAttempts");
  EXPECT_EQ(ClosestSpelling("max-attempts", kKeys), "maxAttempts");
}

TEST(SpellingTest, TheNearestOneWins) {
  EXPECT_EQ(ClosestSpelling("maxBackof", kKeys), "maxBackoff");
  EXPECT_EQ(ClosestSpelling("maxOpenFr", kKeys), "maxOpenFor");
  EXPECT_EQ(ClosestSpelling("openfr", kKeys), "openFor");
}

TEST(SpellingTest, WhatIsFarIsNotGuessed) {
  EXPECT_EQ(ClosestSpelling("foo", kKeys), "");
  EXPECT_EQ(ClosestSpelling("", kKeys), "");
  EXPECT_EQ(ClosestSpelling("rate", kKeys), "");
  EXPECT_EQ(ClosestSpelling(std::string(100000, 'a'), kKeys), "");
  EXPECT_EQ(ClosestSpelling("x", {}), "");
}

TEST(SpellingTest, AsksOnlyWhenItHasAGuess) {
  EXPECT_EQ(DidYouMean("ration", kKeys), "; did you mean \"ratio\"?");
  EXPECT_EQ(DidYouMean("foo", kKeys), "");
}

}  // namespace
}  // namespace retry_guard
