#include "services/gateway/tool_calls/output_splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::gateway {
namespace {

// What comes of a text that comes in pieces of `size` bytes.
OutputPiece Split(ToolFormat format, const std::string& text, size_t size,
                  bool begins_in_thought = false) {
  OutputSplitter splitter(format, begins_in_thought);
  OutputPiece all;
  const auto append = [&](OutputPiece piece) {
    all.text += piece.text;
    all.reasoning += piece.reasoning;
    for (ToolCall& call : piece.calls) all.calls.push_back(std::move(call));
  };
  for (size_t i = 0; i < text.size(); i += size) append(splitter.Add(text.substr(i, size)));
  append(splitter.Finish());
  return all;
}

struct Case {
  ToolFormat format;
  std::string text;
  std::string expected_text;
  std::vector<ToolCall> calls;
  std::string reasoning;
};

const ToolCall kWeather = {"weather", R"({"city":"Bonn","days":3})"};
const ToolCall kTime = {"time", "{}"};

std::vector<Case> Cases() {
  const std::string weather = R"({"name": "weather", "arguments": {"city": "Bonn", "days": 3}})";
  const std::string time = R"({"name": "time", "arguments": {}})";
  return {
      {ToolFormat::kNone,
       " A text < with <tool_call> in it",
       " A text < with <tool_call> in it",
       {}},
      {ToolFormat::kNone, "<think>hm</think>\n\nYes.", "Yes.", {}, "hm"},
      {ToolFormat::kNone, "Yes. <think>hm</think>", "Yes. <think>hm</think>", {}},
      {ToolFormat::kHermes, "<tool_call>\n" + weather + "\n</tool_call>", "", {kWeather}},
      {ToolFormat::kHermes,
       "Let me see.\n<tool_call>\n" + weather + "\n</tool_call>\n<tool_call>" + time +
           "</tool_call>\n",
       "Let me see.\n",
       {kWeather, kTime}},
      {ToolFormat::kHermes,
       "<think>a < b</think>\n<tool_call>" + time + "</tool_call>",
       "",
       {kTime},
       "a < b"},
      {ToolFormat::kHermes, "<tool_call>" + time, "", {kTime}},
      {ToolFormat::kHermes, "<tool_call>no</tool_call> x", "<tool_call>no</tool_call> x", {}},
      {ToolFormat::kHermes, "1 <tool", "1 <tool", {}},
      {ToolFormat::kLlamaJson,
       R"({"name": "weather", "parameters": {"city": "Bonn", "days": 3}})",
       "",
       {kWeather}},
      {ToolFormat::kLlamaJson, "<|python_tag|>" + weather + "; " + time, "", {kWeather, kTime}},
      {ToolFormat::kLlamaJson, R"({"a": 1})", R"({"a": 1})", {}},
      {ToolFormat::kPythonic, R"([weather(city="Bonn", days=3), time()])", "", {kWeather, kTime}},
      {ToolFormat::kPythonic, "[1] is a footnote", "[1] is a footnote", {}},
      {ToolFormat::kMistral, "[TOOL_CALLS] [" + weather + ", " + time + "]", "", {kWeather, kTime}},
      {ToolFormat::kMistral, "[" + weather + "]", "", {kWeather}},
      {ToolFormat::kPhi, "functools[" + weather + "]", "", {kWeather}},
      {ToolFormat::kPhi, "<|tool_call|>[" + time + "]<|/tool_call|>", "", {kTime}},
      {ToolFormat::kGemma,
       "Sure:\n```tool_code\nweather(city='Bonn', days=3)\ntime()\n```",
       "Sure:\n",
       {kWeather, kTime}},
      {ToolFormat::kGemma, "```python\nx = 1\n```", "```python\nx = 1\n```", {}},
  };
}

TEST(OutputSplitterTest, FindsCallsHoweverTheTextIsCut) {
  for (const Case& c : Cases()) {
    for (const size_t size : {1, 2, 3, 7, 1000}) {
      SCOPED_TRACE(c.text + " by " + std::to_string(size));
      const OutputPiece piece = Split(c.format, c.text, size);
      EXPECT_EQ(piece.text, c.expected_text);
      EXPECT_EQ(piece.reasoning, c.reasoning);
      EXPECT_EQ(piece.calls, c.calls);
    }
  }
}

TEST(OutputSplitterTest, HandsTextOnAtOnce) {
  OutputSplitter splitter(ToolFormat::kHermes, false);
  EXPECT_EQ(splitter.Add(" The").text, " The");
  EXPECT_EQ(splitter.Add(" king <t").text, " king ");
  EXPECT_EQ(splitter.Add("ag>").text, "<tag>");
  const std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}";
  EXPECT_TRUE(splitter.Add(call).empty());
  EXPECT_EQ(splitter.Add("</tool_call>").calls.size(), 1);
}

TEST(OutputSplitterTest, BeginsInAThoughtWhereThePromptDoes) {
  const OutputPiece piece = Split(ToolFormat::kNone, "hm</think>\nYes.", 2, true);
  EXPECT_EQ(piece.reasoning, "hm");
  EXPECT_EQ(piece.text, "Yes.");
  EXPECT_EQ(Split(ToolFormat::kNone, "no end", 2, true).reasoning, "no end");
}

TEST(ParseCallsTest, ReadsPythonsLiterals) {
  const auto calls = ParseCalls(ToolFormat::kPythonic,
                                R"([a.b(x=[1, -2.5, True, None], y={'k': ("v\n", 'it\'s')},)])");
  ASSERT_EQ(calls.size(), 1);
  EXPECT_EQ(calls[0].name, "a.b");
  EXPECT_EQ(calls[0].arguments, R"({"x":[1,-2.5,true,null],"y":{"k":["v\n","it's"]}})");
  for (const char* text : {"f(1)", "f(x=)", "f(x=1", "f(x=1))", "f", "[f(x=y)]", "f(x='a)", ""}) {
    EXPECT_TRUE(ParseCalls(ToolFormat::kPythonic, text).empty()) << text;
  }
}

TEST(ParseCallsTest, TakesArgumentsAsTextToo) {
  const auto calls =
      ParseCalls(ToolFormat::kMistral, R"([{"name": "f", "arguments": "{\"a\": 1}"}])");
  ASSERT_EQ(calls.size(), 1);
  EXPECT_EQ(calls[0].arguments, R"({"a":1})");
  for (const char* text : {"{}", "[{}]", "{\"name\": 1}", "{\"name\": \"\"}", "[{\"name\": \"f\"}",
                           "{\"name\": \"f\", \"arguments\": 3}", "x", "]", "{}}"}) {
    EXPECT_TRUE(ParseCalls(ToolFormat::kMistral, text).empty()) << text;
  }
}

TEST(FormatOfPromptTest, KnowsTheFamilies) {
  const auto format = [](const char* prompt) { return FormatOfPrompt(prompt); };
  EXPECT_EQ(format("<tool_call>\n{\"name\": \"probe\", \"arguments\": {}}"), ToolFormat::kHermes);
  EXPECT_EQ(format("[TOOL_CALLS] [{\"name\": \"probe\"}]"), ToolFormat::kMistral);
  EXPECT_EQ(format("{\"name\": \"probe\", \"parameters\": {}}"), ToolFormat::kLlamaJson);
  EXPECT_EQ(format("[probe(key=\"value\")]"), ToolFormat::kPythonic);
  EXPECT_EQ(format("functools[{\"name\": \"probe\"}]"), ToolFormat::kPhi);
  EXPECT_EQ(format("```tool_code\nprobe(key=1)"), ToolFormat::kGemma);
  EXPECT_EQ(format("user: x\nassistant:"), ToolFormat::kNone);
  EXPECT_EQ(ToolFormatByName("hermes"), ToolFormat::kHermes);
  EXPECT_EQ(ToolFormatByName("nonsense"), std::nullopt);
}

}  // namespace
}  // namespace sluice::gateway
