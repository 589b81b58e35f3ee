#include "services/gateway/models/named_model.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace sluice::gateway {
namespace {

TEST(ModelNamedInTest, FindsTheNameWhereverItStands) {
  EXPECT_EQ(ModelNamedIn(R"({"model": "a", "prompt": "x"})"), "a");
  EXPECT_EQ(ModelNamedIn(R"({"prompt": ["x", 1, null, true, 1.5], "model": "a"})"), "a");
  EXPECT_EQ(ModelNamedIn(R"({"m\u006fdel": "a\u00e9"})"), "a\xc3\xa9");
}

TEST(ModelNamedInTest, TakesNoOtherForIt) {
  EXPECT_EQ(ModelNamedIn(R"({"metadata": {"model": "b"}, "tools": [{"model": "c"}]})"), "");
  EXPECT_EQ(ModelNamedIn(R"({"metadata": {"model": "b"}, "model": "a"})"), "a");
  EXPECT_EQ(ModelNamedIn(R"(["model", "a"])"), "");
  EXPECT_EQ(ModelNamedIn(R"({"x": "model", "y": "a"})"), "");
}

TEST(ModelNamedInTest, TheFirstOfSeveralCounts) {
  EXPECT_EQ(ModelNamedIn(R"({"model": "a", "model": "b"})"), "a");
}

TEST(ModelNamedInTest, LeavesWhatIsNoTextToWhoeverReadsTheWhole) {
  for (const char* body : {R"({"model": null})", R"({"model": 5})", R"({"model": ["a"]})",
                           R"({"model": {"model": "a"}})", "", "{", "--boundary", R"({"x": nul)",
                           R"({"model": "\ud800"})", "{\"model\": \"\xff\"}"}) {
    EXPECT_EQ(ModelNamedIn(body), "") << body;
  }
}

// It does not read on once it has found the name, and no depth is too much for it.
TEST(ModelNamedInTest, ReadsNoFurther) {
  EXPECT_EQ(ModelNamedIn(R"({"model": "a", no JSON)"), "a");
  EXPECT_EQ(ModelNamedIn(absl::StrCat(R"({"x": )", std::string(100000, '['))), "");
}

}  // namespace
}  // namespace sluice::gateway
