// What a message's body becomes.
#include "services/gateway/anthropic/message_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "services/gateway/json/json_text.h"

namespace sluice::gateway::anthropic {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<MessageRequest> Read(const std::string& body) {
  const auto json = ParseJson(body);
  if (!json.ok()) return json.status();
  return ReadMessageRequest(*json, body);
}

std::string Refusal(const std::string& members) {
  const auto request = Read(R"({"max_tokens": 9, )" + members + "}");
  return request.ok() ? "accepted" : std::string(request.status().message());
}

v1::GenerateRequest GenerateOf(const std::string& members) {
  const auto request = Read(R"({"max_tokens": 9, )" + members + "}");
  EXPECT_TRUE(request.ok()) << request.status();
  return request.ok() ? request->generate : v1::GenerateRequest();
}

constexpr char kUser[] = R"("messages": [{"role": "user", "content": "x"}])";

std::string With(const std::string& members) { return std::string(kUser) + ", " + members; }

TEST(MessageRequestTest, EarlierTurnsAreAsTheyWereWritten) {
  const v1::Chat chat = GenerateOf(R"("messages": [{"role": "user", "content": "x"},
      {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "AA"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"z": 1.50, "a": 10000000000000000000000}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [
        {"type": "text", "text": "Rain."},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}]}]}])")
                            .chat();
  ASSERT_EQ(chat.messages_size(), 3);
  EXPECT_EQ(chat.messages(1).content(), "I look.");
  EXPECT_EQ(chat.messages(1).extra_json(),
            R"({"reasoning_content":"hm","tool_calls":[{"id":"t1","type":"function","function":)"
            R"({"name":"f","arguments":{"z": 1.50, "a": 10000000000000000000000}}}]})");
  EXPECT_EQ(chat.messages(2).content(), "Rain.\n[image: not shown, this model reads text]");
  EXPECT_FALSE(chat.continue_final_message());
}

TEST(MessageRequestTest, AFinalTurnOfTheAssistantGoesOn) {
  EXPECT_TRUE(GenerateOf(R"("messages": [{"role": "user", "content": "x"}, {"role": "assistant",
      "content": "It is"}])")
                  .chat()
                  .continue_final_message());
  EXPECT_TRUE(GenerateOf(R"("messages": [{"role": "user", "content": "x"}, {"role": "assistant",
      "content": [{"type": "text", "text": "It is"}]}])")
                  .chat()
                  .continue_final_message());
  EXPECT_FALSE(GenerateOf(R"("messages": [{"role": "user", "content": "x"}, {"role": "assistant",
      "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}])")
                   .chat()
                   .continue_final_message());
  EXPECT_FALSE(GenerateOf(kUser).chat().continue_final_message());
}

// What Claude Code sends.
TEST(MessageRequestTest, TakesWhatClaudeCodeSends) {
  const auto request = Read(R"({"model": "m", "max_tokens": 32000, "stream": true,
      "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
      "messages": [{"role": "user", "content": [{"type": "text", "text": "x",
                    "cache_control": {"type": "ephemeral"}}]}],
      "tools": [{"name": "Bash", "description": "Runs.", "input_schema": {"type": "object"},
                 "eager_input_streaming": true, "defer_loading": true, "input_examples": []}],
      "metadata": {"user_id": "u"}, "thinking": {"type": "adaptive"},
      "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
      "output_config": {"effort": "high"}})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->generate.chat().variables_json(),
            R"({"enable_thinking":true,"thinking":true,"reasoning_effort":"high"})");
  EXPECT_EQ(request->tools.tools.size(), 1u);
}

TEST(MessageRequestTest, ThinkingIsTheTemplatesVariable) {
  EXPECT_EQ(GenerateOf(With(R"("thinking": {"type": "enabled", "budget_tokens": 2000})"))
                .chat()
                .variables_json(),
            R"({"enable_thinking":true,"thinking":true})");
  EXPECT_EQ(GenerateOf(With(R"("thinking": {"type": "disabled"})")).chat().variables_json(),
            R"({"enable_thinking":false,"thinking":false})");
  EXPECT_THAT(Refusal(With(R"("thinking": {"type": "deep"})")), HasSubstr("thinking.type: 'deep'"));
}

TEST(MessageRequestTest, AFormatIsKept) {
  EXPECT_EQ(GenerateOf(With(R"("output_config": {"format": {"type": "json_schema",
      "schema": {"type": "object", "properties": {"z": {}, "a": {}}}}})"))
                .constraint()
                .json_schema(),
            R"({"type": "object", "properties": {"z": {}, "a": {}}})");
  EXPECT_THAT(Refusal(With(R"("output_format": {"type": "xml"})")), HasSubstr("output_format"));
}

TEST(MessageRequestTest, AnthropicsToolsAreNamedAsWhatTheyAre) {
  EXPECT_THAT(Refusal(With(R"("tools": [{"type": "web_search_20250305", "name": "web_search",
      "max_uses": 8}])")),
              HasSubstr("tools[0].type: 'web_search_20250305' is a tool that Anthropic defines"));
  EXPECT_THAT(Refusal(With(R"("tools": [{"type": "surprise", "name": "f"}])")),
              HasSubstr("tools[0].type: 'surprise'; accepted: 'custom'"));
  EXPECT_THAT(Refusal(With(R"("tools": [{"input_schema": {}}])")),
              HasSubstr("tools[0].name: Field required"));
}

TEST(MessageRequestTest, TheLastOfTwoMembersCountsHoweverItIsSpelled) {
  EXPECT_EQ(
      GenerateOf(With(R"("tools": [], "t\u006fols": [{"name": "f", "input_schema": {"a": 1}}])"))
          .chat()
          .tools_json(),
      R"([{"type":"function","function":{"name":"f","parameters":{"a": 1}}}])");
}

TEST(MessageRequestTest, PartsOfResultsBecomeText) {
  const auto result = [](const std::string& part) {
    return GenerateOf(R"("messages": [{"role": "user", "content": [{"type": "tool_result",
        "tool_use_id": "a", "content": [)" +
                      part + "]}]}]")
        .chat()
        .messages(0)
        .content();
  };
  EXPECT_EQ(result(R"({"type": "document", "source": {"type": "text", "media_type": "text/plain",
      "data": "Long."}, "title": "T"})"),
            "T\nLong.");
  EXPECT_EQ(result(R"({"type": "document", "source": {"type": "base64", "data": "AA"}})"),
            "[document: not shown, this model reads text]");
  EXPECT_EQ(result(R"({"type": "search_result", "source": "http://x", "title": "T",
      "content": [{"type": "text", "text": "Found."}]})"),
            "T\nFound.\n");
  EXPECT_EQ(result(R"({"type": "tool_reference", "tool_name": "f"})"), "f");
  EXPECT_THAT(Refusal(R"("messages": [{"role": "user", "content": [{"type": "image"}]}])"),
              HasSubstr("'image'"));
}

}  // namespace
}  // namespace sluice::gateway::anthropic
