#include "services/gateway/tool_calls/output_splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/services/gateway/tool_calls/split_output.h"

namespace sluice::gateway {
namespace {

// What comes of a text that comes in pieces of `size` bytes.
Output Split(ToolFormat format, const std::string& text, size_t size,
             bool begins_in_thought = false) {
  return SplitBy(OutputSplitter(format, begins_in_thought), text, size);
}

struct Case {
  ToolFormat format;
  std::string text;
  std::string expected_text;
  std::vector<ToolCall> calls;
  std::string reasoning;
};

// As JSON was written; Python's literals become JSON without spaces.
const ToolCall kWeather = {"weather", R"({"city": "Bonn", "days": 3})"};
const ToolCall kPythonWeather = {"weather", R"({"city":"Bonn","days":3})"};
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
      // Another order, and arguments as text, are taken once they are there.
      {ToolFormat::kHermes,
       R"(<tool_call>{"arguments": {}, "name": "time"}</tool_call>)",
       "",
       {kTime}},
      {ToolFormat::kMistral,
       R"([{"name": "f", "arguments": "{\"a\": 1}"}])",
       "",
       {{"f", R"({"a": 1})"}}},
      // What is read as a whole keeps its order and spelling too.
      {ToolFormat::kHermes,
       R"(<tool_call>{"arguments": {"z": 1.50, "a": 10000000000000000000000}, "name": "f"}</tool_call>)",
       "",
       {{"f", R"({"z": 1.50, "a": 10000000000000000000000})"}}},
      {ToolFormat::kMistral,
       R"([{"name": "f"}, {"name": "g", "arguments": null}])",
       "",
       {{"f", "{}"}, {"g", "{}"}}},
      // A tag within a string is none; brackets that stay open are the client's to see.
      {ToolFormat::kHermes,
       R"(<tool_call>{"name": "f", "arguments": {"a": "</tool_call>\\\"}"}, "id": 1}</tool_call>!)",
       "!",
       {{"f", R"({"a": "</tool_call>\\\"}"})"}}},
      {ToolFormat::kHermes,
       R"(<tool_call>{"name": "f", "arguments": {"a": )",
       "",
       {{"f", "{\"a\": "}}},
      {ToolFormat::kHermes,
       R"(<tool_call>{"name": "f", "arguments": {"a": [</tool_call> So.)",
       "So.",
       {{"f", "{\"a\": ["}}},
      {ToolFormat::kMistral, "[" + time + "] That was it.", "That was it.", {kTime}},
      {ToolFormat::kLlamaJson,
       R"({"name": "weather", "parameters": {"city": "Bonn", "days": 3}})",
       "",
       {kWeather}},
      {ToolFormat::kLlamaJson, "<|python_tag|>" + weather + "; " + time, "", {kWeather, kTime}},
      {ToolFormat::kLlamaJson, R"({"a": 1})", R"({"a": 1})", {}},
      {ToolFormat::kPythonic,
       R"([weather(city="Bonn", days=3), time()])",
       "",
       {kPythonWeather, kTime}},
      {ToolFormat::kPythonic, "[1] is a footnote", "[1] is a footnote", {}},
      {ToolFormat::kMistral, "[TOOL_CALLS] [" + weather + ", " + time + "]", "", {kWeather, kTime}},
      {ToolFormat::kMistral, "[" + weather + "]", "", {kWeather}},
      // Names before arguments, with the marks that decoders show or leave out.
      {ToolFormat::kMistral,
       R"([TOOL_CALLS]weather[ARGS]{"city": "Bonn", "days": 3}[TOOL_CALLS]time[ARGS]{})",
       "",
       {kWeather, kTime}},
      {ToolFormat::kMistral,
       R"(Let me see.[TOOL_CALLS]weather{"city": "Bonn", "days": 3})",
       "Let me see.",
       {kWeather}},
      {ToolFormat::kMistral, R"(weather{"city": "Bonn", "days": 3}time{})", "", {kWeather, kTime}},
      {ToolFormat::kMistral, "[TOOL_CALLS]time[CALL_ID]aB3[ARGS]{} Done.", "Done.", {kTime}},
      {ToolFormat::kMistral, "Paris is {it}.", "Paris is {it}.", {}},
      {ToolFormat::kMistral, "Paris", "Paris", {}},
      {ToolFormat::kMistral, "[TOOL_CALLS]time[ARGS", "[TOOL_CALLS]time[ARGS", {}},
      {ToolFormat::kPhi, "functools[" + weather + "]", "", {kWeather}},
      {ToolFormat::kPhi, "<|tool_call|>[" + time + "]<|/tool_call|>", "", {kTime}},
      {ToolFormat::kGemma,
       "Sure:\n```tool_code\nweather(city='Bonn', days=3)\ntime()\n```",
       "Sure:\n",
       {kPythonWeather, kTime}},
      {ToolFormat::kGemma,
       "```tool_code\nprint(weather(city='Bonn', days=3))\n```",
       "",
       {kPythonWeather}},
      {ToolFormat::kGemma, "```tool_code\nprint(x)\n```", "```tool_code\nprint(x)\n```", {}},
      {ToolFormat::kGemma, "```python\nx = 1\n```", "```python\nx = 1\n```", {}},
  };
}

TEST(OutputSplitterTest, FindsCallsHoweverTheTextIsCut) {
  for (const Case& c : Cases()) {
    for (const size_t size : {1, 2, 3, 7, 1000}) {
      SCOPED_TRACE(c.text + " by " + std::to_string(size));
      const Output piece = Split(c.format, c.text, size);
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
}

TEST(OutputSplitterTest, HandsArgumentsOnLetterByLetter) {
  OutputSplitter splitter(ToolFormat::kHermes, false);
  EXPECT_TRUE(splitter.Add("<tool_call>{\"name\": \"f\", \"arguments\": ").empty());
  const OutputPiece begin = splitter.Add("{\"a");
  ASSERT_EQ(begin.calls.size(), 1);
  EXPECT_EQ(begin.calls[0].name, "f");
  EXPECT_EQ(begin.calls[0].arguments, "{\"a");
  for (const char* letter : {"b", "\"", ":", " ", "1", "}"}) {
    const OutputPiece piece = splitter.Add(letter);
    ASSERT_EQ(piece.calls.size(), 1) << letter;
    EXPECT_EQ(piece.calls[0].name, "");
    EXPECT_EQ(piece.calls[0].arguments, letter);
  }
  EXPECT_TRUE(splitter.Add("}</tool_call>").empty());
  EXPECT_EQ(splitter.Add("So").text, "So");
}

TEST(OutputSplitterTest, TakesATextThatIsArgumentsAsTheyCome) {
  OutputSplitter splitter = OutputSplitter::OfArguments("f");
  EXPECT_TRUE(splitter.Add("").empty());
  const OutputPiece begin = splitter.Add("{<think>");
  ASSERT_EQ(begin.calls.size(), 1);
  EXPECT_EQ(begin.calls[0].name, "f");
  EXPECT_EQ(begin.calls[0].arguments, "{<think>");
  EXPECT_EQ(splitter.Add("}").calls[0].name, "");
  EXPECT_TRUE(splitter.Finish().empty());
}

TEST(OutputSplitterTest, BeginsInAThoughtWhereThePromptDoes) {
  const Output piece = Split(ToolFormat::kNone, "hm</think>\nYes.", 2, true);
  EXPECT_EQ(piece.reasoning, "hm");
  EXPECT_EQ(piece.text, "Yes.");
  EXPECT_EQ(Split(ToolFormat::kNone, "no end", 2, true).reasoning, "no end");
}

TEST(OutputSplitterTest, ReadsPythonsLiterals) {
  const Output output = Split(ToolFormat::kPythonic,
                              R"([a.b(x=[1, -2.5, True, None], y={'k': ("v\n", 'it\'s')},)])", 5);
  ASSERT_EQ(output.calls.size(), 1);
  EXPECT_EQ(output.calls[0].name, "a.b");
  EXPECT_EQ(output.calls[0].arguments, R"({"x":[1,-2.5,true,null],"y":{"k":["v\n","it's"]}})");
}

TEST(OutputSplitterTest, CountsTheTokensOfThoughts) {
  OutputSplitter splitter(ToolFormat::kNone, false);
  for (const char* piece : {"<th", "ink>", "It ", "rains.", "</think>", "Take ", "a coat."}) {
    splitter.Add(piece, 2);
  }
  EXPECT_EQ(splitter.num_thought_tokens(), 8) << "the first came before anything was known";
  OutputSplitter begun(ToolFormat::kNone, true);
  begun.Add("hm", 1);
  begun.Add("</think>", 1);
  begun.Add("Yes.", 1);
  EXPECT_EQ(begun.num_thought_tokens(), 2);
}

TEST(OutputSplitterTest, LeavesWhatIsNoCall) {
  for (const char* text :
       {"[f(1)]", "[f(x=)]", "[f(x=1", "[f(x=1))]", "[f", "[f(x=y)]", "[f(x='a)]"}) {
    const Output output = Split(ToolFormat::kPythonic, text, 3);
    EXPECT_EQ(output.text, text);
    EXPECT_TRUE(output.calls.empty()) << text;
  }
  for (const char* text : {"[{}]", "[{\"name\": 1}]", "[{\"name\": \"\"}]", "[{\"name\": \"f\"",
                           "[{\"name\": \"f\", \"arguments\": 3}]", "[{}}]", "[{\"name\": \"f"}) {
    const Output output = Split(ToolFormat::kMistral, text, 3);
    EXPECT_EQ(output.text, text);
    EXPECT_TRUE(output.calls.empty()) << text;
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
