// What templates are given of earlier turns, and that real ones write it.
#include "services/tokenizer/template_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "services/model/json_fields.h"
#include "services/tokenizer/chat_template.h"
#include "services/tokenizer/jinja/spelled_number.h"
#include "tests/testing/test_data.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

Json Adapted(const std::string& source, Json messages) {
  const auto compiled = jinja::Template::Compile(source, "test");
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  TemplateHistory(source, **compiled).Adapt(messages);
  return messages;
}

// A turn with calls of `names`, numbered from 0, and their results in reverse.
Json Conversation(const std::vector<std::string>& names) {
  Json messages = Json::array({{{"role", "user"}, {"content", "x"}}});
  Json calls = Json::array();
  for (size_t i = 0; i < names.size(); ++i) {
    const Json function = {{"name", names[i]}, {"arguments", {{"z", "Z"}, {"a", {1, true}}}}};
    calls.push_back(
        {{"id", "id" + std::to_string(i)}, {"type", "function"}, {"function", function}});
  }
  messages.push_back({{"role", "assistant"},
                      {"content", "I look."},
                      {"tool_calls", calls},
                      {"reasoning_content", "hm"}});
  for (size_t i = names.size(); i-- > 0;) {
    messages.push_back({{"role", "tool"},
                        {"tool_call_id", "id" + std::to_string(i)},
                        {"content", "result of " + names[i]}});
  }
  return messages;
}

TEST(TemplateHistory, LeavesWhatATemplateReadsAsItIs) {
  const Json messages = Conversation({"f", "g"});
  const std::string source =
      "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
      "{{ c.function.arguments|tojson }}{% endfor %}{{ m.reasoning_content }}{% endfor %}";
  EXPECT_EQ(Adapted(source, messages), messages);
  const Json odd = Json::parse(
      R"([1, null, {"tool_calls": 3}, {"tool_calls": [1, {"function": 2}]}, {"content": []}])");
  EXPECT_EQ(Adapted(source, odd), odd);
}

TEST(TemplateHistory, GivesReasoningByTheNameThatTheTemplateReads) {
  const Json adapted = Adapted("{{ messages[1].thinking }}", Conversation({"f"}));
  EXPECT_EQ(adapted[1]["thinking"], "hm");
  EXPECT_FALSE(Adapted("{{ messages }}", Conversation({"f"}))[1].contains("thinking"));
}

TEST(TemplateHistory, GivesArgumentsAsTextWhereTheTemplateJoinsThemToText) {
  const std::string source =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}"
      "{{ 'call ' + c.function.arguments }}{% endfor %}{% endfor %}";
  const Json adapted = Adapted(source, Conversation({"f"}));
  EXPECT_EQ(adapted[1]["tool_calls"][0]["function"]["arguments"], R"({"z": "Z", "a": [1, true]})");
  Json spelled = Conversation({"f"});
  spelled[1]["tool_calls"][0]["function"]["arguments"] = {{"x", jinja::SpelledNumber("1e22")}};
  EXPECT_EQ(Adapted(source, spelled)[1]["tool_calls"][0]["function"]["arguments"],
            R"({"x": 1e22})");
}

TEST(TemplateHistory, GivesReasoningAndTextAsThePlanBeforeCalls) {
  const std::string source = "{% for m in messages %}{{ m.tool_plan }}{% endfor %}";
  EXPECT_EQ(Adapted(source, Conversation({"f"}))[1]["tool_plan"], "hm\nI look.");
  Json without = Conversation({"f"});
  without[1].erase("tool_calls");
  EXPECT_FALSE(Adapted(source, without)[1].contains("tool_plan"));
}

TEST(TemplateHistory, GivesAnEmptyTextAsAPartWhereTheTemplateLooksIntoTheFirst) {
  Json messages = Conversation({"f"});
  messages[1]["content"] = "";
  const std::string source = "{% for m in messages %}{{ m.content[0].thinking }}{% endfor %}";
  EXPECT_EQ(Adapted(source, messages)[1]["content"],
            Json::parse(R"([{"type": "text", "text": ""}])"));
  EXPECT_EQ(Adapted(source, Conversation({"f"}))[1]["content"], "I look.");
  EXPECT_EQ(Adapted("{{ messages }}", messages)[1]["content"], "");
}

TEST(TemplateHistory, MovesResultsIntoTheTurnOfTheirCallsWhereTheyHaveNoTurnOfTheirOwn) {
  const std::string calls =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}<|tool_call>call:{{ c.function.name "
      "}}<tool_call|>{% endfor %}{% for r in m.tool_responses or [] %}<|tool_response>response:"
      "{{ r.name }}{{ r.response }}<tool_response|>{% endfor %}{% endfor %}";
  const Json adapted = Adapted(calls, Conversation({"f", "g"}));
  ASSERT_EQ(adapted.size(), 2u);
  EXPECT_EQ(adapted[1]["tool_responses"], Json::parse(R"([{"name": "g", "response": "result of g"},
                            {"name": "f", "response": "result of f"}])"));
  // A template that writes results as messages of their own is given these.
  const std::string both =
      calls +
      "{% for m in messages if m.role == 'tool' %}<|tool_response>{{ m.content }}{% endfor %}";
  EXPECT_EQ(Adapted(both, Conversation({"f"})), Conversation({"f"}));
}

TEST(TemplateHistory, NumbersCallsAsKimiDoes) {
  const Json adapted = Adapted("<|tool_call_begin|>", Conversation({"f", "g"}));
  EXPECT_EQ(adapted[1]["tool_calls"][0]["id"], "functions.f:0");
  EXPECT_EQ(adapted[1]["tool_calls"][1]["id"], "functions.g:1");
  EXPECT_EQ(adapted[2]["tool_call_id"], "functions.g:1");
  EXPECT_EQ(adapted[3]["tool_call_id"], "functions.f:0");
}

TEST(TemplateHistory, GivesOneCallATurnWhereTheTemplateReadsOne) {
  const Json adapted =
      Adapted("<|channel|>{{ messages[1].tool_calls[0] }}{{ messages[1].thinking }}",
              Conversation({"f", "g"}));
  ASSERT_EQ(adapted.size(), 5u);
  EXPECT_EQ(adapted[1]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(adapted[1]["tool_calls"].size(), 1u);
  EXPECT_EQ(adapted[1]["thinking"], "hm\nI look.");
  EXPECT_EQ(adapted[1]["content"], "");
  EXPECT_EQ(adapted[2]["content"], "result of f");
  EXPECT_EQ(adapted[3]["tool_calls"][0]["function"]["name"], "g");
  EXPECT_FALSE(adapted[3].contains("thinking"));
  EXPECT_EQ(adapted[4]["content"], "result of g");
}

// A conversation as the template of this file writes it.
std::string Rendered(const std::string& file, const Json& messages) {
  const auto text = ReadTextFile(*testing::TestData("chat_templates/templates/" + file));
  EXPECT_TRUE(text.ok()) << text.status();
  TokenizerConfig config;
  config.chat_templates["default"] = *text;
  config.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  const ChatTemplates templates(config);
  Json variables = {{"messages", messages}, {"tools", nullptr}, {"add_generation_prompt", true}};
  templates.AdaptHistory("", variables);
  const auto rendering = templates.Render("", variables, {.year = 2025, .month = 1, .day = 1});
  EXPECT_TRUE(rendering.ok()) << rendering.status();
  return rendering.ok() ? rendering->text : "";
}

TEST(TemplateHistory, RealTemplatesWriteCallsAndReasoning) {
  SLUICE_SKIP_WITHOUT("chat_templates/index.json");
  const Json messages = Conversation({"f"});
  EXPECT_THAT(Rendered("deepseek-ai__DeepSeek-R1.jinja", messages),
              HasSubstr("<｜tool▁sep｜>f\n```json\n{\"z\": \"Z\", \"a\": [1, true]}\n```"));
  const std::string kimi = Rendered("moonshotai__Kimi-K2-Thinking.jinja", messages);
  EXPECT_THAT(kimi, HasSubstr("<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"));
  EXPECT_THAT(kimi, HasSubstr("## Return of functions.f:0"));
  EXPECT_THAT(kimi, HasSubstr("<think>hm</think>"));
  const std::string lfm = Rendered("LiquidAI__LFM2.5-VL-450M.jinja", messages);
  EXPECT_THAT(lfm, HasSubstr("<think>hm</think><|tool_call_start|>[f(z=\"Z\", a=[1, True])]"));
  EXPECT_THAT(Rendered("zai-org__GLM-5.1.jinja", messages),
              HasSubstr("<tool_call>f<arg_key>z</arg_key><arg_value>Z</arg_value>"));
  EXPECT_THAT(Rendered("Qwen__Qwen3.5-4B.jinja", messages),
              HasSubstr("<function=f>\n<parameter=z>\nZ\n</parameter>"));
}

}  // namespace
}  // namespace sluice
