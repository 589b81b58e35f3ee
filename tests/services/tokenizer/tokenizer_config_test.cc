#include "services/tokenizer/tokenizer_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/testing/test_data.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(TokenizerConfig, ReadsTokensInBothSpellings) {
  const auto config = ParseTokenizerConfig(
      R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}})", "c.json");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->bos_token, "<s>");
  EXPECT_EQ(config->eos_token, "</s>");
  EXPECT_TRUE(config->chat_templates.empty());
}

TEST(TokenizerConfig, ReadsOneChatTemplateOrSeveral) {
  const auto one = ParseTokenizerConfig(R"({"bos_token": null, "chat_template": "{{ x }}"})", "c");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->bos_token, std::nullopt);
  EXPECT_EQ(one->chat_templates.at("default"), "{{ x }}");
  const auto several = ParseTokenizerConfig(
      R"({"chat_template": [{"name": "default", "template": "a"}, {"name": "rag", "template": "b"}]})",
      "c");
  ASSERT_TRUE(several.ok()) << several.status();
  EXPECT_EQ(several->chat_templates.at("default"), "a");
  EXPECT_EQ(several->chat_templates.at("rag"), "b");
}

TEST(TokenizerConfig, NamesWhatIsWrong) {
  const std::pair<std::string, std::string> kCases[] = {
      {"[]", "holds []"},
      {R"({"bos_token": 3})", "c.json: bos_token is 3; accepted: a string or"},
      {R"({"eos_token": {}})", "c.json: eos_token is {}; accepted: a string or"},
      {R"({"chat_template": 1})", "c.json: chat_template is 1; accepted: a string or a list"},
      {R"({"chat_template": [{"name": "a"}]})", "c.json: chat_template[0] is {\"name\":\"a\"}"},
  };
  for (const auto& [text, message] : kCases) {
    const auto config = ParseTokenizerConfig(text, "c.json");
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(message));
  }
}

TEST(TokenizerConfig, IsEmptyWithoutFiles) {
  const auto config = LoadTokenizerConfig("/nowhere");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->bos_token, std::nullopt);
}

TEST(TokenizerConfig, ReadsRealFiles) {
  SLUICE_SKIP_WITHOUT("tokenizers/qwen2");
  const auto config = LoadTokenizerConfig(*testing::TestData("tokenizers/qwen2"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->eos_token.has_value());
  EXPECT_THAT(config->chat_templates.at("default"), HasSubstr("<|im_start|>"));
}

TEST(TokenizerConfig, SaysWhatOtherFilesLeaveOut) {
  const auto config = ParseTokenizerConfig(R"({"add_bos_token": false, "add_eos_token": true,
      "pat_str": "a|b", "added_tokens_decoder": {"7": {"content": "<x>", "special": true}}})",
                                           "c.json");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->add_bos_token, false);
  EXPECT_EQ(config->add_eos_token, true);
  EXPECT_EQ(ParseTokenizerConfig(R"({"tokenizer_class": "T5Tokenizer"})", "t")->add_eos_token,
            true);
  EXPECT_EQ(ParseTokenizerConfig(R"({"tokenizer_class": "LlamaTokenizer"})", "t")->add_eos_token,
            std::nullopt);
  EXPECT_EQ(config->split_pattern, "a|b");
  ASSERT_EQ(config->added_tokens.size(), 1);
  EXPECT_EQ(config->added_tokens[0].id, 7);
  EXPECT_EQ(config->added_tokens[0].content, "<x>");
  EXPECT_TRUE(config->added_tokens[0].special);
  EXPECT_FALSE(
      ParseTokenizerConfig(R"({"added_tokens_decoder": {"x": {"content": "a"}}})", "c.json").ok());
}

}  // namespace
}  // namespace sluice
