// What a response's body becomes.
#include "services/gateway/openai/response_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "services/gateway/json/json_text.h"

namespace sluice::gateway::openai {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<ResponseRequest> ReadResponse(const std::string& body) {
  const auto json = ParseJson(body);
  if (!json.ok()) return json.status();
  return ReadResponseRequest(*json, body);
}

std::string ResponseRefusal(const std::string& body) {
  const auto request = ReadResponse(body);
  return request.ok() ? "accepted" : std::string(request.status().message());
}

// "role: content extra", one line for each message.
std::string Turns(const std::string& input) {
  const auto request = ReadResponse(R"({"input": )" + input + "}");
  if (!request.ok()) return std::string(request.status().message());
  std::string turns;
  for (const v1::ChatMessage& message : request->generate.chat().messages()) {
    turns += message.role() + ": " + message.content() + " " + message.extra_json() + "\n";
  }
  return turns;
}

TEST(ResponseRequestTest, WhatAModelWroteInOneTurnIsOneMessage) {
  EXPECT_EQ(Turns(R"([{"role": "user", "content": "Weather?"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{\"z\": 1.50, \"a\": 2}"},
        {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "Rain."},
        {"type": "function_call_output", "call_id": "b", "output": "Noon."},
        {"type": "message", "role": "assistant", "content": "It rains."}])"),
            "user: Weather? \n"
            "assistant: I look. {\"tool_calls\":["
            "{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"z\":"
            " 1.50, \"a\": 2}}},"
            "{\"id\":\"b\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":{}}}],"
            "\"reasoning_content\":\"hm\"}\n"
            "tool: Rain. {\"tool_call_id\":\"a\"}\n"
            "tool: Noon. {\"tool_call_id\":\"b\"}\n"
            "assistant: It rains. \n");
}

TEST(ResponseRequestTest, TurnsOfTheirOwnStay) {
  EXPECT_EQ(
      Turns(R"([{"role": "assistant", "content": "One."}, {"role": "assistant", "content": "Two."},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": ""},
        {"role": "user", "content": "x"}])"),
      "assistant: One. \n"
      "assistant: Two. \n"
      "assistant:  {\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\",\"function\":"
      "{\"name\":\"f\",\"arguments\":{}}}],\"reasoning_content\":\"hm\"}\n"
      "user: x \n");
  EXPECT_EQ(
      Turns(R"([{"type": "reasoning", "summary": [], "encrypted_content": "AA", "content": null},
        {"role": "user", "content": "x"}])"),
      "user: x \n");
}

TEST(ResponseRequestTest, FaultsAreInTheInputThatWasSent) {
  EXPECT_THAT(Turns(R"([{"role": "user", "content": "x"}, {"role": "user", "content":
        [{"type": "input_image", "image_url": "data:x"}]}])"),
              HasSubstr("'input_image'"));
  const auto request = ReadResponse(
      R"({"instructions": "y", "input": [{"role": "user", "content": "x"}, {"content": "x"}]})");
  EXPECT_THAT(std::string(request.status().message()), HasSubstr("'input[1].role'"));
}

// What Codex sends to a model that it does not know.
constexpr char kCodex[] =
    R"({"model": "m", "instructions": "Be brief.", "stream": true, "store": false,
    "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
    "tools": [{"type": "function", "name": "shell", "description": "Runs.", "strict": false,
               "parameters": {"type": "object"}},
              {"type": "web_search", "external_web_access": false},
              {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}},
              {"type": "local_shell"}],
    "tool_choice": "auto", "parallel_tool_calls": false, "reasoning": {"effort": "medium", "summary": "auto"},
    "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k", "text": {"verbosity": "low"},
    "client_metadata": {"a": "b"}, "truncation": "auto", "top_logprobs": 0})";

TEST(ResponseRequestTest, TakesWhatCodexSends) {
  const auto request = ReadResponse(kCodex);
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_EQ(request->tools.tools.size(), 1u);
  EXPECT_EQ(request->tools.tools[0].name, "shell");
  EXPECT_EQ(request->echoed["tools"].size(), 1u) << "what is not offered is not said to be";
  EXPECT_EQ(request->echoed["reasoning"]["effort"], "medium");
  EXPECT_EQ(request->generate.chat().variables_json(), R"({"reasoning_effort":"medium"})");
}

// As Codex asks whether a model is there.
TEST(ResponseRequestTest, InstructionsAloneAreAnInput) {
  EXPECT_EQ(ResponseRefusal(R"({"instructions": "x", "input": [], "max_output_tokens": 1})"),
            "accepted");
  EXPECT_THAT(ResponseRefusal(R"({"input": []})"), HasSubstr("'input'"));
}

TEST(ResponseRequestTest, RefusesWhatWouldChangeTheAnswer) {
  const auto refusal = [](const std::string& members) {
    return ResponseRefusal(R"({"input": "x", )" + members + "}");
  };
  EXPECT_THAT(
      refusal(R"("tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"})"),
      HasSubstr("tool_choice"));
  EXPECT_THAT(refusal(R"("tools": [{"type": "surprise"}])"), HasSubstr("'surprise'"));
  EXPECT_THAT(refusal(R"("include": ["message.output_text.logprobs"])"), HasSubstr("logprobs"));
  EXPECT_THAT(refusal(R"("top_logprobs": 3)"), HasSubstr("top_logprobs"));
  EXPECT_THAT(refusal(R"("truncation": "middle")"), HasSubstr("'middle'"));
  EXPECT_THAT(refusal(R"("text": {"verbosity": "loud"})"), HasSubstr("'loud'"));
}

}  // namespace
}  // namespace sluice::gateway::openai
