// What a chat completion's body becomes.
#include "services/gateway/openai/chat_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "services/gateway/json/json_text.h"
#include "services/gateway/openai/ignored_fields.h"

namespace sluice::gateway::openai {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<ChatRequest> Read(const std::string& body) {
  const auto json = ParseJson(body);
  if (!json.ok()) return json.status();
  return ReadChatRequest(*json, body);
}

v1::Chat ChatOf(const std::string& body) {
  const auto request = Read(body);
  EXPECT_TRUE(request.ok()) << request.status();
  return request.ok() ? request->generate.chat() : v1::Chat();
}

std::string Refusal(const std::string& body) {
  const auto request = Read(body);
  return request.ok() ? "accepted" : std::string(request.status().message());
}

constexpr char kMessages[] = R"("messages": [{"role": "user", "content": "x"}])";

std::string With(const std::string& members) {
  return std::string("{") + kMessages + ", " + members + "}";
}

TEST(ChatRequestTest, ArgumentsOfEarlierCallsAreAsTheyWereWritten) {
  const v1::Chat chat =
      ChatOf(R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [
      {"id": "a", "type": "function", "function": {"name": "f",
       "arguments": "{\"z\": 1.50, \"a\": 10000000000000000000000}"}},
      {"id": "b", "type": "function", "function": {"name": "g", "arguments": {"y": 1e2, "b": 0}}},
      {"id": "c", "type": "function", "function": {"name": "h", "arguments": ""}},
      {"id": "d", "type": "function", "function": {"name": "i", "arguments": "no JSON"}}]}]})");
  EXPECT_EQ(
      chat.messages(0).extra_json(),
      R"({"tool_calls":[)"
      R"({"id":"a","type":"function","function":{"name":"f","arguments":{"z": 1.50, "a": 10000000000000000000000}}},)"
      R"({"id":"b","type":"function","function":{"name":"g","arguments":{"y": 1e2, "b": 0}}},)"
      R"({"id":"c","type":"function","function":{"name":"h","arguments":{}}},)"
      R"({"id":"d","type":"function","function":{"name":"i","arguments":"no JSON"}}]})");
}

TEST(ChatRequestTest, VariablesOfTheTemplateAreAsTheyWereWritten) {
  EXPECT_EQ(ChatOf(With(R"("chat_template_kwargs": {"z": 1.50, "a": 100000000000000000000})"))
                .variables_json(),
            R"({"z":1.50,"a":100000000000000000000})");
  EXPECT_EQ(ChatOf(With(R"("chat_template_kwargs": {"enable_thinking": true, "x": 1},
                           "enable_thinking": false, "reasoning_effort": "low")"))
                .variables_json(),
            R"({"x":1,"reasoning_effort":"low","enable_thinking":false})");
}

TEST(ChatRequestTest, SchemasOfToolsAreAsTheyWereWritten) {
  EXPECT_EQ(ChatOf(With(R"("tools": [{"type": "function", "function": {"name": "f", "returns": {},
             "parameters": {"type": "object", "properties": {"z": {"maximum": 1.50}, "a": {}}}}}])"))
                .tools_json(),
            R"([{"type":"function","function":{"name":"f","parameters":)"
            R"({"type": "object", "properties": {"z": {"maximum": 1.50}, "a": {}}}}}])");
  // The last of two members of a name counts, however it is spelled.
  EXPECT_EQ(ChatOf(With(R"("tools": [], "t\u006fols": [{"type": "function", "function":
             {"name": "f", "parameters": {"a": 1}}}])"))
                .tools_json(),
            R"([{"type":"function","function":{"name":"f","parameters":{"a": 1}}}])");
  EXPECT_THAT(Refusal(With(R"("tools": [{"type": "function", "function": {"name": "f",
             "parameters": [1]}}])")),
              HasSubstr("tools[0].function.parameters"));
}

TEST(ChatRequestTest, ThoughtsGoOnUnderEitherName) {
  for (const char* name : {"reasoning", "reasoning_content"}) {
    const v1::Chat chat =
        ChatOf(std::string(R"({"messages": [{"role": "assistant", "content": "y", ")") + name +
               R"(": "hm"}]})");
    EXPECT_EQ(chat.messages(0).extra_json(), R"({"reasoning_content":"hm"})");
  }
}

TEST(ChatRequestTest, TheLastMessageGoesOn) {
  EXPECT_TRUE(ChatOf(With(R"("continue_final_message": true)")).continue_final_message());
  EXPECT_FALSE(ChatOf(With(R"("continue_final_message": false)")).continue_final_message());
}

TEST(ChatRequestTest, WhatHasNoEffectIsTakenByItsName) {
  for (const char* name : kIgnoredParameters) {
    EXPECT_EQ(Refusal(With(std::string("\"") + name + "\": {\"a\": 1}")), "accepted") << name;
  }
  for (const char* name : kIgnoredMessageFields) {
    EXPECT_EQ(Refusal(std::string(R"({"messages": [{"role": "user", "content": "x", ")") + name +
                      "\": {\"a\": 1}}]}"),
              "accepted")
        << name;
  }
  EXPECT_EQ(Refusal(With(R"("add_special_tokens": true)")), "accepted");
  EXPECT_THAT(Refusal(With(R"("surprise": 1)")), HasSubstr("Unknown parameter: 'surprise'"));
  EXPECT_THAT(Refusal(R"({"messages": [{"role": "user", "content": "x", "surprise": 1}]})"),
              HasSubstr("Unknown parameter: 'messages[0].surprise'"));
}

TEST(ChatRequestTest, ImagesStandInResultsOfToolsAlone) {
  const std::string image = R"([{"type": "text", "text": "See:"},)"
                            R"({"type": "image_url", "image_url": {"url": "data:x"}}])";
  EXPECT_EQ(
      ChatOf(R"({"messages": [{"role": "tool", "tool_call_id": "a", "content": )" + image + "}]}")
          .messages(0)
          .content(),
      "See:\n[image: not shown, this model reads text]");
  EXPECT_THAT(Refusal(R"({"messages": [{"role": "user", "content": )" + image + "}]}"),
              HasSubstr("Content of type 'image_url'"));
}

TEST(ChatRequestTest, LengthsKeepTheNameThatWasSent) {
  EXPECT_EQ(Read(With(R"("max_tokens": 5)"))->max_tokens_name, "max_tokens");
  EXPECT_EQ(Read(With(R"("max_completion_tokens": 5)"))->max_tokens_name, "max_completion_tokens");
}

}  // namespace
}  // namespace sluice::gateway::openai
