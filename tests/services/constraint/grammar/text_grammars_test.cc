#include "services/constraint/grammar/text_grammars.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/services/constraint/grammar_text.h"

namespace sluice {
namespace {

using testing::Accepts;

TEST(RegexGrammar, TakesWholeTexts) {
  const auto grammar = RegexGrammar("[a-zé]+(, [a-zé]+)*\\.?");
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  for (const char* text : {"a", "été, hiver.", "ab, cd"})
    EXPECT_TRUE(Accepts(**grammar, text)) << text;
  for (const char* text : {"", "a,b", "A", "a..", "\xC3"})
    EXPECT_FALSE(Accepts(**grammar, text)) << text;
}

TEST(RegexGrammar, RefusesByName) {
  EXPECT_EQ(RegexGrammar("(a)\\1").status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(RegexGrammar("a[").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RegexGrammar("a$b").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ChoiceGrammar, TakesOneOfTheChoices) {
  const auto grammar = ChoiceGrammar(std::vector<std::string>{"yes", "yes, but", "no"});
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  for (const char* text : {"yes", "yes, but", "no"}) EXPECT_TRUE(Accepts(**grammar, text)) << text;
  for (const char* text : {"", "ye", "yes,", "noyes"})
    EXPECT_FALSE(Accepts(**grammar, text)) << text;
  EXPECT_EQ(ChoiceGrammar({}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ChoiceGrammar(std::vector<std::string>{"a", ""}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
