// Chat templates, through the whole pipeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/end_to_end/started_pipeline.h"
#include "tests/services/model/model_folder.h"
#include "tests/testing/test_data.h"

namespace sluice::testing {
namespace {

// The storyteller with a chat template of its own.
class ChatFolder {
 public:
  ChatFolder() {
    std::filesystem::copy(ProjectPath("models/storyteller"), path(),
                          std::filesystem::copy_options::recursive);
    folder_.Write("chat_template.jinja",
                  "{% for message in messages %}{{ message.role }}: {{ message.content }}"
                  "<|endoftext|>\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}");
  }
  const std::string& path() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

TEST(Chat, TalksByTheModelsChatTemplate) {
  const ChatFolder folder;
  const StartedPipeline started = StartPipeline({.model = folder.path()});
  EXPECT_TRUE(started.client.GetModel()->has_chat_template());

  v1::GenerateRequest chat = GreedyRequest("", 20);
  v1::ChatMessage& message = *chat.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content("Tell me of the <|endoftext|> king.");
  const Generated answer = started.client.Generate(chat);
  ASSERT_TRUE(answer.status.ok()) << answer.status;

  // The template's special token is one; the message's is text.
  v1::GenerateRequest spelled = GreedyRequest("", 20);
  v1::TokenIds& prompt = *spelled.mutable_token_ids();
  const auto add = [&](const std::string& text, bool parse_special) {
    v1::TokenizeRequest request;
    request.set_text(text);
    request.set_add_special_tokens(false);
    request.set_parse_special_tokens(parse_special);
    const auto tokens = started.client.Tokenize(request);
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    prompt.mutable_token_ids()->MergeFrom(tokens->token_ids());
  };
  add("user: Tell me of the <|endoftext|> king.", /*parse_special=*/false);
  add("<|endoftext|>\nassistant:", /*parse_special=*/true);
  const Generated expected = started.client.Generate(spelled);
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  EXPECT_EQ(answer.first(), expected.first());
  EXPECT_EQ(answer.finished.usage().num_prompt_tokens(), prompt.token_ids_size());
}

TEST(Chat, SaysWhereAChatTemplateFails) {
  const ChatFolder folder;
  const StartedPipeline started = StartPipeline({.model = folder.path()});
  v1::GenerateRequest chat = GreedyRequest("", 5);
  chat.mutable_chat()->add_messages()->set_role("user");
  chat.mutable_chat()->set_template_name("tool_use");
  const Generated answer = started.client.Generate(chat);
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kFailedPrecondition) << answer.status;
  EXPECT_THAT(std::string(answer.status.message()), ::testing::HasSubstr("tool_use"));
}

}  // namespace
}  // namespace sluice::testing
