// Which style a template's prompts show.
#include "services/gateway/tool_calls/output_style.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "services/model/json_fields.h"
#include "services/options/option_values.h"
#include "services/tokenizer/chat_template.h"
#include "tests/testing/test_data.h"

namespace sluice::gateway {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Not;

// What the gateway asks a template for, as OutputStyles does.
OutputStyle StyleOfTemplate(const std::string& source, const Json& more = Json::object()) {
  TokenizerConfig config;
  config.chat_templates["default"] = source;
  config.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  const ChatTemplates templates(config);
  Json messages = Json::array();
  for (const v1::ChatMessage& message : ProbeMessages()) {
    Json made = {{"role", message.role()}, {"content", message.content()}};
    if (!message.extra_json().empty()) made.update(Json::parse(message.extra_json()));
    messages.push_back(std::move(made));
  }
  Json variables = {{"messages", messages},
                    {"tools", Json::parse(ProbeTools())},
                    {"add_generation_prompt", false}};
  variables.update(more);
  templates.AdaptHistory("", variables);
  const jinja::LocalTime now = {.year = 2025, .month = 1, .day = 1};
  OutputStyle style;
  const auto calls = templates.Render("", variables, now);
  if (calls.ok()) style.tool_format = FormatOfPrompt(calls->text);
  variables["messages"] = Json::array({messages[0]});
  variables["tools"] = nullptr;
  variables["add_generation_prompt"] = true;
  const auto begins = templates.Render("", variables, now);
  EXPECT_TRUE(begins.ok()) << begins.status();
  if (begins.ok()) ReadReasoningFormat(begins->text, style);
  return style;
}

TEST(OutputStyle, RealTemplatesShowTheirFormats) {
  SLUICE_SKIP_WITHOUT("chat_templates/index.json");
  const struct {
    const char* file;
    ToolFormat format;
    bool begins_in_thought = false;
    ReasoningFormat reasoning = ReasoningFormat::kThinkTags;
  } kTemplates[] = {
      {"deepseek-ai__DeepSeek-R1.jinja", ToolFormat::kDeepSeek},
      {"moonshotai__Kimi-K2-Thinking.jinja", ToolFormat::kKimi},
      {"zai-org__GLM-5.1.jinja", ToolFormat::kGlm, true},
      {"Qwen__Qwen3.5-4B.jinja", ToolFormat::kQwenXml, true},
      {"HuggingFaceTB__SmolLM3-3B.jinja", ToolFormat::kHermes},
      {"LiquidAI__LFM2.5-VL-450M.jinja", ToolFormat::kLfm},
      {"CohereLabs__c4ai-command-a-03-2025.jinja", ToolFormat::kCohere, false,
       ReasoningFormat::kThinkingTokens},
      {"CohereLabs__command-a-reasoning-08-2025.jinja", ToolFormat::kCohere, false,
       ReasoningFormat::kThinkingTokens},
      {"Qwen__Qwen2.5-7B-Instruct.jinja", ToolFormat::kHermes},
      {"Qwen__Qwen3-0.6B.jinja", ToolFormat::kHermes},
      {"meta-llama__Llama-3.1-8B-Instruct.jinja", ToolFormat::kLlamaJson},
      {"mistralai__Mistral-Nemo-Instruct-2407.jinja", ToolFormat::kMistral},
      {"HuggingFaceH4__zephyr-7b-beta.jinja", ToolFormat::kNone},
  };
  for (const auto& expected : kTemplates) {
    SCOPED_TRACE(expected.file);
    const auto source =
        ReadTextFile(*testing::TestData(std::string("chat_templates/templates/") + expected.file));
    ASSERT_TRUE(source.ok()) << source.status();
    const OutputStyle style = StyleOfTemplate(*source);
    EXPECT_EQ(style.tool_format, expected.format);
    EXPECT_EQ(style.reasoning, expected.reasoning);
    EXPECT_EQ(style.begins_in_thought, expected.begins_in_thought);
  }
}

// Templates that write what those of the families write, where theirs are not among the test's data.
TEST(OutputStyle, FindsHarmonyGraniteAndDsmlByTheTemplate) {
  const OutputStyle harmony = StyleOfTemplate(
      "<|start|>system<|message|># Valid channels: analysis, commentary, final.<|end|>"
      "{% for message in messages %}{% if message.tool_calls %}"
      "{% set call = message.tool_calls[0].function %}<|start|>assistant to=functions.{{ call.name "
      "}}<|channel|>commentary json<|message|>{{ call.arguments | tojson }}<|call|>{% else %}"
      "<|start|>{{ message.role }}<|message|>{{ message.content }}<|end|>{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<|start|>assistant{% endif %}");
  EXPECT_EQ(harmony.tool_format, ToolFormat::kHarmony);
  EXPECT_EQ(harmony.reasoning, ReasoningFormat::kChannels);
  const OutputStyle granite = StyleOfTemplate(
      "<|start_of_role|>system<|end_of_role|>{% if tools %}When a tool is required to answer the "
      "user's query, respond with <|tool_call|> followed by a JSON list of tools used.{% endif %}"
      "Write your thoughts between <think></think> and write your response between "
      "<response></response> for each user query.<|end_of_text|>{% for message in messages %}"
      "<|start_of_role|>{{ message.role }}<|end_of_role|>{{ message.content }}<|end_of_text|>"
      "{% endfor %}{% if add_generation_prompt %}<|start_of_role|>assistant<|end_of_role|>"
      "{% endif %}");
  EXPECT_EQ(granite.tool_format, ToolFormat::kGranite);
  EXPECT_EQ(granite.reasoning, ReasoningFormat::kThinkAndResponse);
  const OutputStyle dsml = StyleOfTemplate(
      "{% for message in messages %}{% if message.role == 'user' %}<｜User｜>{{ message.content }}"
      "{% else %}<｜Assistant｜></think>{% if message.tool_calls %}<｜DSML｜function_calls>\n"
      "{% for call in message.tool_calls %}<｜DSML｜invoke name=\"{{ call.function.name }}\">\n"
      "</｜DSML｜invoke>\n{% endfor %}</｜DSML｜function_calls>{% endif %}{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<｜Assistant｜><think>{% endif %}");
  EXPECT_EQ(dsml.tool_format, ToolFormat::kDsml);
  EXPECT_EQ(dsml.reasoning, ReasoningFormat::kThinkTags);
  EXPECT_TRUE(dsml.begins_in_thought);
}

TEST(OutputStyle, FindsGemma4NemotronAndOlmoByTheTemplate) {
  const OutputStyle gemma = StyleOfTemplate(
      "{{ bos_token }}{% if tools %}<|turn>system\n{% for tool in tools %}<|tool>declaration:"
      "{{ tool.function.name }}{}<tool|>{% endfor %}<turn|>\n{% endif %}{% for message in messages "
      "%}"
      "<|turn>{{ 'model' if message.role == 'assistant' else message.role }}\n"
      "{% for call in message.tool_calls or [] %}{{ '<|tool_call>call:' + call.function.name + '{' "
      "}}"
      "{% for key, value in call.function.arguments | dictsort %}{{ key }}:<|\"|>{{ value }}<|\"|>"
      "{% endfor %}{{ '}<tool_call|>' }}{% endfor %}{{ message.content }}<turn|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|turn>model\n{{ '<|channel>thought\n<channel|>' }}{% endif "
      "%}");
  EXPECT_EQ(gemma.tool_format, ToolFormat::kGemma4);
  EXPECT_EQ(gemma.reasoning, ReasoningFormat::kThoughtChannel);
  EXPECT_FALSE(gemma.begins_in_thought);
  const OutputStyle nemotron = StyleOfTemplate(
      "<SPECIAL_10>System\n{% if tools %}<AVAILABLE_TOOLS>{{ tools | tojson }}</AVAILABLE_TOOLS>"
      "Use the following format:\n<TOOLCALL>[{\"name\": \"tool_name1\"}]</TOOLCALL>{% endif %}"
      "{% for message in messages %}<SPECIAL_11>{{ message.role }}\n{{ message.content }}"
      "{% if message.tool_calls %}<TOOLCALL>[{% for call in message.tool_calls %}"
      "{\"name\": \"{{ call.function.name }}\", \"arguments\": "
      "{{ call.function.arguments | tojson }}}{% endfor %}]</TOOLCALL>{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<SPECIAL_11>Assistant\n{{ '<think>\n\n' }}{% endif %}");
  EXPECT_EQ(nemotron.tool_format, ToolFormat::kNemotron);
  EXPECT_TRUE(nemotron.begins_in_thought);
  const OutputStyle olmo = StyleOfTemplate(
      "<|im_start|>system\nOutput any function calls within <function_calls></function_calls> XML "
      "tags.<|im_end|>\n{% for message in messages %}<|im_start|>{{ message.role }}\n"
      "{{ message.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  EXPECT_EQ(olmo.tool_format, ToolFormat::kOlmo);
  EXPECT_EQ(olmo.reasoning, ReasoningFormat::kThinkTags);
}

TEST(OutputStyle, KnowsTheOtherFormatsByWhatTheirTemplatesWrite) {
  const auto format = [](const char* prompt) { return FormatOfPrompt(prompt); };
  EXPECT_EQ(format("<|start|>assistant to=functions.probe<|channel|>commentary json<|message|>{}"),
            ToolFormat::kHarmony);
  EXPECT_EQ(format("<｜tool▁call▁begin｜>probe<｜tool▁sep｜>{}"), ToolFormat::kDeepSeek);
  EXPECT_EQ(format("<tool_call>\n<function=probe>\n<parameter=key>"), ToolFormat::kQwenXml);
  EXPECT_EQ(format("<tool_call>probe\n<arg_key>key</arg_key>"), ToolFormat::kGlm);
  // Templates that leave calls out.
  EXPECT_EQ(format("respond with <|tool_call|> followed by a JSON list"), ToolFormat::kGranite);
  EXPECT_EQ(format("return a json object within <tool_call></tool_call> XML tags"),
            ToolFormat::kHermes);
  EXPECT_EQ(format("List of tools: <|tool_list_start|>["), ToolFormat::kLfm);
  EXPECT_EQ(format("<|im_system|>tool_declare<|im_middle|>"), ToolFormat::kKimi);
}

TEST(OutputStyle, ReasoningIsThatOfThePrompt) {
  const auto style = [](const char* prompt) {
    OutputStyle read;
    ReadReasoningFormat(prompt, read);
    return read;
  };
  EXPECT_EQ(style("<|start|>user<|message|>x<|end|><|start|>assistant").reasoning,
            ReasoningFormat::kChannels);
  EXPECT_EQ(style("between <think></think> and .. between <response></response>").reasoning,
            ReasoningFormat::kThinkAndResponse);
  EXPECT_EQ(style("after 'Here is my thought process:' and").reasoning,
            ReasoningFormat::kThoughtProcess);
  EXPECT_EQ(style("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>").reasoning,
            ReasoningFormat::kThinkingTokens);
  EXPECT_TRUE(style("<|CHATBOT_TOKEN|><|START_THINKING|>").begins_in_thought);
  EXPECT_TRUE(style("<|turn>model\n<|channel>thought\n").begins_in_thought);
  EXPECT_TRUE(style("<|assistant|><think>\n").begins_in_thought);
  EXPECT_FALSE(style("<|assistant|></think>").begins_in_thought);
}

TEST(OutputStyle, NamesTheTagsThatMayBeSpecialTokens) {
  EXPECT_THAT(SpecialTokensOf(OutputStyle{.tool_format = ToolFormat::kKimi}),
              IsSupersetOf({"<|tool_calls_section_begin|>", "<|tool_call_end|>", "<think>"}));
  EXPECT_THAT(SpecialTokensOf(OutputStyle{.tool_format = ToolFormat::kGemma4,
                                          .reasoning = ReasoningFormat::kThoughtChannel}),
              ::testing::UnorderedElementsAre("<|tool_call>", "<tool_call|>", "<|\"|>",
                                              "<|channel>", "<channel|>"));
  EXPECT_THAT(SpecialTokensOf(OutputStyle{.tool_format = ToolFormat::kCohere,
                                          .reasoning = ReasoningFormat::kThinkingTokens}),
              IsSupersetOf({"<|START_ACTION|>", "<|END_THINKING|>", "<|START_RESPONSE|>"}));
  EXPECT_THAT(SpecialTokensOf(OutputStyle{.reasoning = ReasoningFormat::kChannels}),
              IsSupersetOf({"<|channel|>", "<|message|>", "<|end|>"}));
  for (int i = 0; i < kNumToolFormats; ++i) {
    EXPECT_LE(SpecialTokensOf(OutputStyle{.tool_format = static_cast<ToolFormat>(i)}).size(), 64u);
  }
}

TEST(OutputStyle, EveryFormatIsAWordOfItsOption) {
  EXPECT_EQ(FindOption(kPlainGateway, "tool_parser")->words, "auto, " + ToolFormatNames());
}

TEST(OutputStyle, EveryFormatHasAName) {
  for (const char* name : {"hermes", "qwen3_xml", "glm", "deepseek", "deepseek_v32", "kimi",
                           "granite", "lfm", "harmony", "llama3_json", "pythonic", "mistral", "phi",
                           "gemma", "gemma4", "cohere", "nemotron", "olmo3"}) {
    EXPECT_NE(ToolFormatByName(name).value_or(ToolFormat::kNone), ToolFormat::kNone) << name;
    EXPECT_NE(ToolFormatNames().find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace sluice::gateway
