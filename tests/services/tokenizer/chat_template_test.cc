// Which template is chosen, what it is given, and what is trusted of what it writes.
#include "services/tokenizer/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "services/tokenizer/jinja/error.h"
#include "services/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz_tokenizer.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TokenizerConfig Config(std::map<std::string, std::string> templates) {
  TokenizerConfig config;
  config.chat_templates = std::move(templates);
  config.special_tokens = {{"bos_token", "<s>"}};
  return config;
}

std::string Rendered(const TokenizerConfig& config, const std::string& name,
                     const Json& variables) {
  const auto rendering = ChatTemplates(config).Render(name, variables, {});
  return rendering.ok() ? rendering->text : std::string(rendering.status().message());
}

TEST(ChatTemplates, ChoosesByNameThenByToolsThenTheDefault) {
  const TokenizerConfig config = Config({{"default", "D"}, {"tool_use", "T"}, {"rag", "R"}});
  const Json with_tools = {{"tools", Json::array()}};
  const Json without = {{"tools", nullptr}};
  EXPECT_EQ(Rendered(config, "", without), "D");
  EXPECT_EQ(Rendered(config, "", with_tools), "T");
  EXPECT_EQ(Rendered(config, "default", with_tools), "D");
  EXPECT_EQ(Rendered(config, "rag", without), "R");
  EXPECT_EQ(Rendered(Config({{"default", "D"}}), "", with_tools), "D");
}

TEST(ChatTemplates, NamesWhatThereIsInPlaceOfAMissingTemplate) {
  const TokenizerConfig config = Config({{"rag", "R"}, {"tool_use", "T"}});
  EXPECT_EQ(Rendered(config, "nope", {}),
            "there is no chat template \"nope\"; there are: rag, tool_use");
  const auto rendering = ChatTemplates(config).Render("", Json::object(), {});
  EXPECT_EQ(rendering.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ChatTemplates, SaysWhereATemplateDoesNotCompileWhenItIsAskedFor) {
  TokenizerConfig config = Config({{"default", "a\n{{ x | }}"}, {"rag", "R"}});
  config.chat_template_sources["default"] = "m/chat_template.jinja";
  const ChatTemplates templates(config);
  EXPECT_TRUE(templates.Render("rag", Json::object(), {}).ok());
  const auto broken = templates.Render("", Json::object(), {});
  EXPECT_EQ(broken.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(broken.status().message()),
              HasSubstr("compile: chat_template.jinja:2:8: "));
}

TEST(ChatTemplates, KeepsTheWordsOfRaiseException) {
  const ChatTemplates templates(Config({{"default", "{{ raise_exception('only users') }}"}}));
  const auto rendering = templates.Render("", Json::object(), {});
  EXPECT_EQ(rendering.status().code(), absl::StatusCode::kInvalidArgument);
  const auto error = jinja::ErrorOf(rendering.status());
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->kind, jinja::Error::Kind::kRaised);
  EXPECT_EQ(error->message, "only users");
}

TEST(ChatTemplates, GivesSpecialTokensUnlessTheVariablesDo) {
  const TokenizerConfig config = Config({{"default", "{{ bos_token }}{{ eos_token }}"}});
  EXPECT_EQ(Rendered(config, "", Json::object()), "<s>");
  EXPECT_EQ(Rendered(config, "", {{"bos_token", "B"}, {"eos_token", "E"}}), "BE");
}

// What the tokens of the fuzz targets' tokenizer make of a template: 270 is "<s>".
std::vector<TokenId> Ids(const std::string& text, const Json& variables) {
  const auto rendering = ChatTemplates(Config({{"default", text}})).Render("", variables, {});
  EXPECT_TRUE(rendering.ok()) << rendering.status();
  std::vector<ByteRange> untrusted;
  for (const jinja::TextRange& range : rendering->untrusted) {
    untrusted.push_back({static_cast<uint32_t>(range.begin), static_cast<uint32_t>(range.end)});
  }
  static const Tokenizer& tokenizer = *MakeFuzzTokenizer().release();
  const auto encoding =
      tokenizer.Encode(rendering->text, {.add_special = false, .untrusted = untrusted});
  EXPECT_TRUE(encoding.ok()) << encoding.status();
  return encoding->ids;
}

int CountSpecial(const std::vector<TokenId>& ids) {
  const auto token = MakeFuzzTokenizer()->FindToken("<s>");
  return static_cast<int>(std::count(ids.begin(), ids.end(), *token));
}

TEST(ChatTemplateTokens, SpecialTokensAreTheTemplatesAlone) {
  const Json variables = {{"content", "<s>"}, {"begin", "<"}, {"end", "s>"}};
  EXPECT_EQ(CountSpecial(Ids("<s>a", variables)), 1);
  EXPECT_EQ(CountSpecial(Ids("{{ bos_token }}a", variables)), 1);
  EXPECT_EQ(CountSpecial(Ids("{{ '<' ~ 's>' }}", variables)), 1);
  EXPECT_EQ(CountSpecial(Ids("{{ content }}", variables)), 0);
  EXPECT_EQ(CountSpecial(Ids("<s>{{ content }}<s>", variables)), 2);
  EXPECT_EQ(CountSpecial(Ids("{{ begin }}s>", variables)), 0);
  EXPECT_EQ(CountSpecial(Ids("<{{ end }}", variables)), 0);
  EXPECT_EQ(CountSpecial(Ids("{{ begin }}{{ end }}", variables)), 0);
  EXPECT_EQ(CountSpecial(
                Ids("{{ [content]|tojson }}{{ [content] }}{{ content|upper|lower }}", variables)),
            0);
  EXPECT_EQ(
      CountSpecial(Ids("{{ '%s'|format(content) }}{{ content.replace('s', 's') }}", variables)), 0);
}

TEST(ChatTemplateTokens, ContentsWithoutSpecialTokensGiveTheIdsOfTheWholeText) {
  const auto tokenizer = MakeFuzzTokenizer();
  for (const std::string content : {"aaab", " a a", "aab", "  aab ", "é€", "", "a<s"}) {
    const std::string whole = "<s>a" + content + "b <s> aa";
    EXPECT_EQ(Ids("<s>a{{ c }}b <s> aa", {{"c", content}}),
              tokenizer->Encode(whole, {.add_special = false})->ids)
        << content;
  }
}

TEST(ChatTemplateTokens, RolesThatEveryModelKnowsMakeTokens) {
  const std::string text = "{{ '<' + message.role + '>' }}";
  const auto untrusted = [&](const char* role) {
    const Json variables = {{"message", {{"role", role}, {"content", "x"}}}};
    return ChatTemplates(Config({{"default", text}})).Render("", variables, {})->untrusted;
  };
  EXPECT_TRUE(untrusted("user").empty());
  EXPECT_THAT(untrusted("endoftext"), ElementsAre(jinja::TextRange{1, 10}));
}

}  // namespace
}  // namespace sluice
