#include "services/constraint/grammar/structural_tags.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "services/constraint/grammar/text_grammars.h"
#include "tests/services/constraint/grammar_text.h"

namespace sluice {
namespace {

using testing::Accepts;

// Tags <f=a>NUMBER</f>, <f=b>x or y</f> and <note>anything</note>.
std::unique_ptr<Grammar> Tags(std::vector<std::string> triggers, const TagCounts& counts) {
  GrammarBuilder builder;
  const std::vector<GrammarTag> tags = {
      {.begin = "<f=a>", .content = *AddRegex("[0-9]+", builder), .end = "</f>"},
      {.begin = "<f=b>",
       .content = *AddChoices(std::vector<std::string>{"x", "y"}, builder),
       .end = "</f>"},
      {.begin = "<note>", .end = "</note>"}};
  const RuleId rule = AddStructuralTags(tags, std::move(triggers), counts, builder);
  auto grammar = builder.Build(rule);
  EXPECT_TRUE(grammar.ok()) << grammar.status();
  return *std::move(grammar);
}

TEST(StructuralTags, AreFreeUntilATriggerAndAfterTheEnd) {
  const auto grammar = Tags({"<f=", "<note>"}, {});
  for (const char* text :
       {"", "free <text> é", "<f=a>12</f>", "say <f=b>x</f> and <f=a>0</f>.", "<f", "a < b",
        "<note>any <f=a> é</note>", "<note></note> more", "<<f=a>1</f><f=b>y</f>"}) {
    EXPECT_TRUE(Accepts(*grammar, text)) << text;
  }
  for (const char* text : {"<f=", "<f=c>", "see <f=a>x</f>", "<f=a>1</f> <f=", "<f=a>1",
                           "<note>never closed", "<f=b>1</f>"}) {
    EXPECT_FALSE(Accepts(*grammar, text)) << text;
  }
}

TEST(StructuralTags, BeginWithThemselvesWithoutTriggers) {
  const auto grammar = Tags({}, {});
  EXPECT_TRUE(Accepts(*grammar, "<f=c> is no tag here, <f=a>1</f> is"));
  EXPECT_FALSE(Accepts(*grammar, "<f=a>x"));
}

TEST(StructuralTags, AreCounted) {
  const auto one = Tags({"<"}, {.min = 1, .max = 1});
  EXPECT_FALSE(Accepts(*one, "no tag"));
  EXPECT_TRUE(Accepts(*one, "a <f=a>1</f> b"));
  EXPECT_FALSE(Accepts(*one, "<f=a>1</f><f=a>1</f>"));
  const auto some = Tags({"<"}, {.min = 2});
  EXPECT_FALSE(Accepts(*some, "<f=a>1</f>"));
  EXPECT_TRUE(Accepts(*some, "<f=a>1</f><f=a>2</f>"));
  EXPECT_TRUE(Accepts(*some, "<f=a>1</f><f=a>2</f><f=b>x</f>"));
  const auto none = Tags({"<"}, {.min = 0, .max = 1});
  EXPECT_TRUE(Accepts(*none, "no tag"));
  EXPECT_FALSE(Accepts(*none, "<f=a>1</f><f=a>1</f>"));
}

}  // namespace
}  // namespace sluice
