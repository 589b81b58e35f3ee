// Calls between tags: those of DeepSeek (V3 to V3.2), Kimi, Qwen3-Coder, GLM, Granite, LFM, Command,
// Nemotron, OLMo and Gemma 4.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/services/gateway/tool_calls/split_output.h"

namespace sluice::gateway {
namespace {

OutputStyle Style(ToolFormat format) { return {.tool_format = format}; }

const std::vector<OfferedTool>& Tools() {
  static const auto& tools = *new std::vector<OfferedTool>{
      {.name = "weather",
       .parameters = R"({"type": "object", "properties": {"city": {"type": "string"},
         "days": {"type": "integer"}, "units": {"type": ["string", "null"]},
         "tags": {"type": "array"}, "deep": {"$ref": "#/$defs/deep"}},
         "$defs": {"deep": {"anyOf": [{"type": "boolean"}, {"type": "object"}]}}})"}};
  return tools;
}

TEST(TaggedCalls, DeepSeekV31) {
  const std::string call =
      "<｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Bonn\"}<｜tool▁call▁end｜>";
  const ToolCall weather = {"weather", R"({"city": "Bonn"})"};
  const OutputStyle style = Style(ToolFormat::kDeepSeek);
  ExpectOutput(style, {}, "I look.<｜tool▁calls▁begin｜>" + call + call + "<｜tool▁calls▁end｜>",
               {"I look.", "", {weather, weather}});
  ExpectOutput(style, {}, "hm</think>" + call, {"hm</think>", "", {weather}});
  ExpectOutput(style, {}, call + "<｜tool▁calls▁end｜>\nSo.", {"So.", "", {weather}});
  ExpectOutput(style, {}, "<｜tool▁calls▁begin｜> no call",
               {"<｜tool▁calls▁begin｜> no call", "", {}});
  ExpectOutput(style, {},
               "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": ", {"", "", {{"f", "{\"a\":"}}});
  ExpectOutput(style, {}, "<｜tool▁call▁begin｜>f<｜tool▁sep｜><｜tool▁call▁end｜>",
               {"", "", {{"f", "{}"}}});
}

TEST(TaggedCalls, DeepSeekV3AndR1) {
  const std::string call =
      "<｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"a ``` b\"}\n```"
      "<｜tool▁call▁end｜>";
  const ToolCall weather = {"weather", "{\"city\": \"a ``` b\"}"};
  const OutputStyle style = Style(ToolFormat::kDeepSeek);
  ExpectOutput(
      style, {},
      "<think>hm</think>\n\n<｜tool▁calls▁begin｜>" + call + "\n" + call + "<｜tool▁calls▁end｜>",
      {"", "hm", {weather, weather}});
  ExpectOutput(style, {},
               "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n```<｜tool▁call▁end｜>",
               {"", "", {{"f", "{}"}}});
  // A tool of this name, in the form of V3.1.
  ExpectOutput(style, {},
               "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>",
               {"", "", {{"function", "{\"a\": 1}"}}});
}

TEST(TaggedCalls, DeepSeekV32) {
  const std::string call =
      "<｜DSML｜invoke name=\"weather\">\n"
      "<｜DSML｜parameter name=\"city\" string=\"true\">Bonn \"am\"\nRhein</｜DSML｜parameter>\n"
      "<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n"
      "<｜DSML｜parameter name=\"tags\" string=\"false\">[\"a\", 1e22]</｜DSML｜parameter>\n"
      "</｜DSML｜invoke>\n";
  const std::string section = "<｜DSML｜function_calls>\n", end = "</｜DSML｜function_calls>";
  const ToolCall weather = {"weather",
                            R"({"city": "Bonn \"am\"\nRhein", "days": 3, "tags": ["a", 1e22]})"};
  const OutputStyle style = Style(ToolFormat::kDsml);
  ExpectOutput(style, Tools(), "<think>hm</think>I look.\n\n" + section + call + call + end,
               {"I look.\n\n", "hm", {weather, weather}});
  ExpectOutput(style, Tools(), call, {"", "", {weather}});
  // The attribute decides, not the schema: what says that it is a string is one.
  ExpectOutput(style, Tools(),
               section +
                   "<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter name=\"days\" "
                   "string=\"true\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n" +
                   end,
               {"", "", {{"weather", R"({"days": "3"})"}}});
  ExpectOutput(style, Tools(),
               section + "<｜DSML｜invoke name=\"time\">\n</｜DSML｜invoke>\n" + end + "\nSo.",
               {"So.", "", {{"time", "{}"}}});
  ExpectOutput(style, Tools(), section + "no call", {section + "no call", "", {}});
  ExpectOutput(style, Tools(),
               "<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">Bo",
               {"", "", {{"f", "{\"a\": \"Bo"}}});
}

TEST(TaggedCalls, Kimi) {
  const OutputStyle style = Style(ToolFormat::kKimi);
  ExpectOutput(
      style, {},
      "Let me see.<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
      "<|tool_call_argument_begin|>{\"city\": \"Bonn\"}<|tool_call_end|><|tool_call_begin|>"
      "functions.time:12<|tool_call_argument_begin|>{}<|tool_call_end|>"
      "<|tool_calls_section_end|>",
      {"Let me see.", "", {{"weather", "{\"city\": \"Bonn\"}"}, {"time", "{}"}}});
  ExpectOutput(style, {}, "<think>hm</think>So.", {"So.", "hm", {}});
  ExpectOutput(style, {}, "<|tool_call_begin|> a b<|tool_call_argument_begin|>{}",
               {"<|tool_call_begin|> a b<|tool_call_argument_begin|>{}", "", {}});
}

TEST(TaggedCalls, QwenXml) {
  const std::string call =
      "<tool_call>\n<function=weather>\n<parameter=city>\nBonn \"am\"\nRhein\n</parameter>\n"
      "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>";
  const ToolCall weather = {"weather", R"({"city": "Bonn \"am\"\nRhein", "days": 3})"};
  const OutputStyle style = Style(ToolFormat::kQwenXml);
  ExpectOutput(style, Tools(), "I look.\n\n" + call + "\n" + call,
               {"I look.\n\n", "", {weather, weather}});
  ExpectOutput(style, Tools(), "<function=time>\n</function>\n</tool_call>",
               {"", "", {{"time", "{}"}}});
  ExpectOutput(style, Tools(), "<tool_call>\n<function=f>\n</tool_call> x",
               {"<tool_call>\n<function=f>\n</tool_call> x", "", {}});
  ExpectOutput(style, Tools(), "<tool_call> x", {"<tool_call> x", "", {}});
  // What the end of the text cuts off stays open.
  ExpectOutput(style, Tools(), "<function=weather><parameter=city>\nBo",
               {"", "", {{"weather", "{\"city\": \"Bo"}}});
  ExpectOutput(style, Tools(), "<function=weather><parameter=city>\nBo\n</parameter>",
               {"", "", {{"weather", "{\"city\": \"Bo\"}"}}});
}

TEST(TaggedCalls, StringsOfXmlAreHandedOnAsTheyCome) {
  OutputSplitter splitter(Style(ToolFormat::kQwenXml), Tools());
  EXPECT_EQ(splitter.Add("<tool_call>\n<function=weather>\n").calls.size(), 0u);
  std::string arguments;
  for (const ToolCallPiece& piece : splitter.Add("<parameter=city>\nBonn").calls) {
    arguments += piece.arguments;
  }
  EXPECT_EQ(arguments, "{\"city\": \"Bonn");
  EXPECT_EQ(splitter.Add(" am").calls.at(0).arguments, " am");
  EXPECT_TRUE(splitter.Add("\n</para").empty());
  EXPECT_EQ(splitter.Add("graph>").calls.at(0).arguments, "\\n</paragraph>");
}

TEST(TaggedCalls, Glm) {
  const OutputStyle style = Style(ToolFormat::kGlm);
  ExpectOutput(style, Tools(),
               "I look.\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Bonn</arg_value>\n"
               "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
               {"I look.\n", "", {{"weather", R"({"city": "Bonn", "days": 3})"}}});
  ExpectOutput(
      style, Tools(),
      "<think>hm</think><tool_call>time</tool_call><tool_call>weather<arg_key>tags</arg_key>"
      "<arg_value>[\"a\", 1e22]</arg_value></tool_call>",
      {"", "hm", {{"time", "{}"}, {"weather", R"({"tags": ["a", 1e22]})"}}});
  ExpectOutput(style, Tools(), "<tool_call> is a tag", {"<tool_call> is a tag", "", {}});
}

TEST(TaggedCalls, ValuesHaveTheTypesOfTheSchema) {
  const auto value = [](const std::string& key, const std::string& text) {
    const std::string call = "<tool_call>weather<arg_key>" + key + "</arg_key><arg_value>" + text +
                             "</arg_value></tool_call>";
    const Output output = SplitBy(OutputSplitter(Style(ToolFormat::kGlm), Tools()), call, 1000);
    const std::string& arguments = output.calls.at(0).arguments;
    return arguments.substr(key.size() + 5, arguments.size() - key.size() - 6);
  };
  EXPECT_EQ(value("city", "12"), "\"12\"");
  EXPECT_EQ(value("city", "null"), "\"null\"");
  EXPECT_EQ(value("units", "null"), "null");
  EXPECT_EQ(value("units", "C"), "\"C\"");
  EXPECT_EQ(value("days", " 10000000000000000000000 "), "10000000000000000000000");
  EXPECT_EQ(value("days", "soon"), "\"soon\"");
  EXPECT_EQ(value("tags", "['a', True]"), R"(["a",true])");
  EXPECT_EQ(value("deep", "True"), "true");
  EXPECT_EQ(value("deep", "{\"a\": \"b\"}"), "{\"a\": \"b\"}");
  // Nothing is known of these.
  EXPECT_EQ(value("other", "3"), "3");
  EXPECT_EQ(value("other", "a b"), "\"a b\"");
  EXPECT_EQ(value("other", "\"a\""), R"("\"a\"")");
  EXPECT_EQ(value("other", "1, y=2"), "\"1, y=2\"");
}

TEST(TaggedCalls, Granite) {
  const OutputStyle style = Style(ToolFormat::kGranite);
  const Output expected = {"", "", {{"f", "{\"a\": 1}"}, {"g", "{}"}}};
  const std::string list =
      R"([{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}])";
  ExpectOutput(style, {}, "<|tool_call|>" + list, expected);
  ExpectOutput(style, {}, "<tool_call>" + list, expected);
  ExpectOutput(style, {}, list, expected);
}

TEST(TaggedCalls, GraniteReasoning) {
  const OutputStyle tags = {.reasoning = ReasoningFormat::kThinkAndResponse};
  ExpectOutput(tags, {}, "<think>hm</think>\n<response>Yes.</response>", {"Yes.", "hm", {}});
  ExpectOutput(tags, {}, "<think>hm</think>\nYes.", {"Yes.", "hm", {}});
  const OutputStyle prose = {.reasoning = ReasoningFormat::kThoughtProcess};
  ExpectOutput(prose, {}, "Here is my thought process: hm\n\nHere is my response: Yes.",
               {"Yes.", " hm\n\n", {}});
  ExpectOutput(prose, {}, "Here is my answer.", {"Here is my answer.", "", {}});
}

TEST(TaggedCalls, Lfm) {
  const OutputStyle style = Style(ToolFormat::kLfm);
  ExpectOutput(style, {},
               "<|tool_call_start|>[weather(city=\"Bonn\"), time()]<|tool_call_end|>Checking.",
               {"Checking.", "", {{"weather", "{\"city\":\"Bonn\"}"}, {"time", "{}"}}});
  ExpectOutput(style, {},
               R"(<|tool_call_start|>[{"name": "f", "arguments": {"a": 1}}]<|tool_call_end|>)",
               {"", "", {{"f", "{\"a\": 1}"}}});
}

TEST(TaggedCalls, Command) {
  const OutputStyle style = {.tool_format = ToolFormat::kCohere,
                             .reasoning = ReasoningFormat::kThinkingTokens};
  const ToolCall weather = {"weather", R"({"city": "Bonn"})"};
  ExpectOutput(style, {},
               "<|START_THINKING|>I look.<|END_THINKING|><|START_ACTION|>[\n"
               "    {\"tool_call_id\": \"0\", \"tool_name\": \"weather\", \"parameters\": "
               "{\"city\": \"Bonn\"}},\n"
               "    {\"tool_name\": \"time\", \"parameters\": {}}\n]<|END_ACTION|>",
               {"", "I look.", {weather, {"time", "{}"}}});
  ExpectOutput(style, {},
               "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>So.<|END_RESPONSE|>",
               {"So.", "hm", {}});
  // Without a thought.
  ExpectOutput(style, {}, "<|START_RESPONSE|>So < so.<|END_RESPONSE|>", {"So < so.", "", {}});
  ExpectOutput(style, {}, "So.", {"So.", "", {}});
  ExpectOutput(style, {}, "<|START_ACTION|>none<|END_ACTION|>",
               {"<|START_ACTION|>none<|END_ACTION|>", "", {}});
  // Other orders of members are taken once they are there.
  ExpectOutput(style, {},
               "<|START_ACTION|>[{\"parameters\": {}, \"tool_name\": \"time\"}]<|END_ACTION|>",
               {"", "", {{"time", "{}"}}});
}

TEST(TaggedCalls, Nemotron) {
  const OutputStyle style = Style(ToolFormat::kNemotron);
  ExpectOutput(
      style, {},
      "<think>hm</think>\nI look.<TOOLCALL>[{\"name\": \"weather\", \"arguments\": {\"city\": "
      "\"Bonn\"}}, {\"name\": \"time\", \"arguments\": \"{}\"}]</TOOLCALL>",
      {"I look.", "hm", {{"weather", R"({"city": "Bonn"})"}, {"time", "{}"}}});
  ExpectOutput(style, {}, "<TOOLCALL>[]</TOOLCALL>.", {"<TOOLCALL>[]</TOOLCALL>.", "", {}});
}

TEST(TaggedCalls, Olmo) {
  const OutputStyle style = Style(ToolFormat::kOlmo);
  ExpectOutput(style, {},
               "I look.<function_calls>\nweather(city=\"Bonn\", deep=true, units=null)\ntime()\n"
               "</function_calls>",
               {"I look.",
                "",
                {{"weather", R"({"city":"Bonn","deep":true,"units":null})"}, {"time", "{}"}}});
  ExpectOutput(style, {}, "<function_calls>what</function_calls>",
               {"<function_calls>what</function_calls>", "", {}});
}

TEST(TaggedCalls, Gemma4) {
  const OutputStyle style = {.tool_format = ToolFormat::kGemma4,
                             .reasoning = ReasoningFormat::kThoughtChannel};
  ExpectOutput(
      style, {},
      "<|channel>thought\nhm\n<channel|>I look.<|tool_call>call:weather{city:<|\"|>Bonn \"am\"\n"
      "{Rhein}<|\"|>,days:-3,deep:true,at:[1.5e10,null,{k:<|\"|><|\"|>}]}<tool_call|>"
      "<|tool_call>call:time{}<tool_call|>",
      {"I look.",
       "hm\n",
       {{"weather", R"({"city": "Bonn \"am\"\n{Rhein}", "days": -3, "deep": true, )"
                    R"("at": [1.5e10, null, {"k": ""}]})"},
        {"time", "{}"}}});
  // Keys and values as JSON has them, and a word that is no value.
  ExpectOutput(style, {}, "<|tool_call>call:f{\"a\":\"b\",<|\"|>c<|\"|>:many}<tool_call|>",
               {"", "", {{"f", R"({"a": "b", "c": "many"})"}}});
  // Thoughts between texts, and what ends one that has not begun.
  ExpectOutput(style, {},
               "<|channel>thought\n<channel|>Yes.<|channel>thought\nhm<channel|><channel|>",
               {"Yes.", "hm", {}});
  ExpectOutput(style, {}, "<|tool_call>no call", {"<|tool_call>no call", "", {}});
  ExpectOutput(style, {}, "<|tool_call>call:f{a:<|\"|>Bo", {"", "", {{"f", "{\"a\": \"Bo"}}});
}

TEST(TaggedCalls, StringsOfGemma4AreHandedOnAsTheyCome) {
  OutputSplitter splitter(Style(ToolFormat::kGemma4), Tools());
  splitter.Add("<|tool_call>call:weather{city:");
  EXPECT_EQ(splitter.Add("<|\"|>Bonn").calls.at(0).arguments, "\"Bonn");
  EXPECT_EQ(splitter.Add(" am").calls.at(0).arguments, " am");
}

}  // namespace
}  // namespace sluice::gateway
