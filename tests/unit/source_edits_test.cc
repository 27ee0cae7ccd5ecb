#include "retry_guard/config/source_edits.h"

#include <string>

#include "gtest/gtest.h"
#include "retry_guard/config/json.h"

namespace retry_guard {
namespace {

TEST(SourceEditsTest, WithoutEditsTheTextIsTheSame) {
  const std::string source = " {\"a\" : 1 } ";
  EXPECT_EQ(SourceEdits().Apply(source), source);
}

TEST(SourceEditsTest, EditsInAnyOrderTouchOnlyTheirOwnValues) {
  const std::string source = R"( {"a" : 1,  "b":[2, "x"] } )";
  const auto root = ParseJson(source);
  ASSERT_TRUE(root.ok());
  SourceEdits edits;
  edits.Replace(root->Find("b")->elements[1], "\"longer\"");
  edits.Replace(*root->Find("a"), "1.0");
  edits.AddMember(*root, "\"c\": 3");
  EXPECT_EQ(edits.Apply(source),
            R"( {"c": 3, "a" : 1.0,  "b":[2, "longer"] } )");
}

}  // namespace
}  // namespace retry_guard
