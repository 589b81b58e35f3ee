// What a request says of a conversation, as templates see it.
#include "services/tokenizer/chat_context.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "services/model/json_fields.h"
#include "services/tokenizer/chat_continuation.h"
#include "services/tokenizer/chat_json.h"
#include "services/tokenizer/chat_template.h"
#include "services/tokenizer/jinja/error.h"
#include "tests/testing/test_data.h"

namespace sluice {
namespace {

class ChatContextTest : public ::testing::Test {
 protected:
  void Say(const std::string& role, const std::string& content, const std::string& extra = "") {
    v1::ChatMessage& message = *request_.add_messages();
    message.set_role(role);
    message.set_content(content);
    message.set_extra_json(extra);
  }

  // What the template makes of the request, or why it makes nothing.
  std::string Rendered(const std::string& text) const {
    const auto context = ChatContext(request_);
    if (!context.ok()) return std::string(context.status().message());
    TokenizerConfig config;
    config.chat_templates = {{"default", text}};
    auto rendering = ChatTemplates(config).Render("", *context, {});
    if (!rendering.ok()) return std::string(rendering.status().message());
    if (request_.continue_final_message()) {
      const absl::Status status = EndInFinalMessage(*context, *rendering);
      if (!status.ok()) return std::string(status.message());
    }
    for (const jinja::TextRange& range : rendering->untrusted) {
      EXPECT_LE(range.end, rendering->text.size());
    }
    return rendering->text;
  }

  v1::ApplyChatTemplateRequest request_;
};

TEST_F(ChatContextTest, ArgumentsKeepTheirOrderAndSpelling) {
  const std::string arguments =
      R"({"z": 1, "a": 10000000000000000000000, "m": 1.50, "e": 1E5, "f": 2.0, )"
      R"("huge": 123456789012345678901234567890123456789012345, "n": -0.10})";
  Say("assistant", "", R"({"tool_calls": [{"function": {"arguments": )" + arguments + "}}]}");
  EXPECT_EQ(Rendered("{{ messages[0].tool_calls[0].function.arguments | tojson }}"), arguments);
  EXPECT_EQ(Rendered("{% set a = messages[0].tool_calls[0].function.arguments %}"
                     "{{ a.a }} {{ a.m }} {{ a.m * 2 }} {{ a.a + 1 }} {{ a.f }}"),
            "10000000000000000000000 1.50 3.0 10000000000000000000001 2.0");
  request_.set_variables_json(R"({"limit": 1e2, "b": 1, "a": 2})");
  EXPECT_EQ(Rendered("{{ limit }}"), "1e2");
}

TEST_F(ChatContextTest, TheLastOfTwoMembersOfANameCounts) {
  request_.set_variables_json(R"({"x": {"a": 1, "b": 2, "a": 3}})");
  EXPECT_EQ(Rendered("{{ x | tojson }}"), R"({"a": 3, "b": 2})");
}

TEST_F(ChatContextTest, ObjectsOfManyMembersAreReadInTime) {
  std::string members;
  for (int i = 0; i < 200'000; ++i) members += "\"m" + std::to_string(i) + "\": 0, ";
  const auto parsed = ParseChatJson("{" + members + "\"end\": 1}");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->size(), 200'001u);
}

TEST_F(ChatContextTest, AToolsMessageGetsTheNameOfItsCall) {
  Say("assistant", "",
      R"({"tool_calls": [{"id": "a", "function": {"name": "weather"}},)"
      R"({"id": "b", "function": {"name": "clock"}}]})");
  Say("tool", "Rain.", R"({"tool_call_id": "a"})");
  Say("tool", "Noon.", R"({"tool_call_id": "b", "name": "mine"})");
  Say("tool", "?", R"({"tool_call_id": "c"})");
  EXPECT_EQ(Rendered("{% for m in messages %}{{ m.name }},{% endfor %}"), ",weather,mine,,");
}

// As Mistral's templates do.
constexpr char kInsists[] =
    "{% for m in messages %}{% for c in m.tool_calls %}"
    "{% if c.id|length != 9 %}{{ raise_exception('ids of 9') }}{% endif %}{{ c.id }} {% endfor %}"
    "{% if m.role == 'tool' %}{% if m.tool_call_id|length != 9 %}{{ raise_exception('ids of 9') }}"
    "{% endif %}{{ m.tool_call_id }}{% endif %}{% endfor %}";

TEST_F(ChatContextTest, IdsBecomeShortWhereATemplateInsists) {
  Say("assistant", "",
      R"({"tool_calls": [{"id": "call_0123456789abcdef", "function": {"name": "f"}},)"
      R"({"id": "abcDEF123", "function": {"name": "f"}}]})");
  Say("tool", "Rain.", R"({"tool_call_id": "call_0123456789abcdef"})");
  const std::string text = Rendered(kInsists);
  ASSERT_EQ(text.size(), 29u) << text;
  EXPECT_EQ(text.substr(0, 9), text.substr(20)) << "a result names its call";
  EXPECT_EQ(text.substr(9, 11), " abcDEF123 ") << "one that fits is kept";
  EXPECT_EQ(Rendered(kInsists), text) << "the next turn has the same ids";
  EXPECT_EQ(Rendered("{{ messages[1].tool_call_id }}"), "call_0123456789abcdef");
}

TEST_F(ChatContextTest, ARefusalForAnotherReasonStands) {
  Say("tool", "Rain.", R"({"tool_call_id": "call_0123456789abcdef"})");
  EXPECT_NE(Rendered("{{ raise_exception('no tools') }}").find("no tools"), std::string::npos);
}

// A loop of tools as this server's own ids and clients make it, with two published templates.
TEST_F(ChatContextTest, PublishedTemplatesTakeALoopOfTools) {
  SLUICE_SKIP_WITHOUT("chat_templates/templates");
  const auto text_of = [](const std::string& name) {
    return *ReadTextFile(*testing::TestData("chat_templates/templates/" + name + ".jinja"));
  };
  request_.set_tools_json(
      R"([{"type": "function", "function": {"name": "weather", "description": "Tells it.", )"
      R"("parameters": {"type": "object", "properties": {"city": {"type": "string", )"
      R"("description": "Where."}}}}}])");
  request_.set_variables_json(R"({"bos_token": "<s>", "eos_token": "</s>"})");
  Say("user", "Rain?");
  Say("assistant", "",
      R"({"tool_calls": [{"id": "call_0123456789abcdef", "type": "function", )"
      R"("function": {"name": "weather", "arguments": {"z": 1.50, "city": "Bonn"}}}]})");
  Say("tool", "Yes.", R"({"tool_call_id": "call_0123456789abcdef"})");
  const std::string mistral = Rendered(text_of("mistralai__Mistral-Nemo-Instruct-2407"));
  EXPECT_NE(
      mistral.find(
          R"([TOOL_CALLS][{"name": "weather", "arguments": {"z": 1.50, "city": "Bonn"}, "id": ")"),
      std::string::npos)
      << mistral;
  const std::string hermes = Rendered(text_of("NousResearch__Hermes-2-Pro-Llama-3-8B"));
  EXPECT_NE(hermes.find("<tool_response>"), std::string::npos) << hermes;
  EXPECT_NE(hermes.find(R"("name": "weather", "content": )"), std::string::npos) << hermes;
}

constexpr char kTurns[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</{{ m.role }}>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

TEST_F(ChatContextTest, TheFinalMessageGoesOn) {
  request_.set_continue_final_message(true);
  Say("user", "Say it.");
  Say("assistant", "It is");
  EXPECT_EQ(Rendered(kTurns), "<user>Say it.</user>\n<assistant>It is");
  request_.mutable_messages(1)->set_content("It is \n");
  EXPECT_EQ(Rendered(kTurns), "<user>Say it.</user>\n<assistant>It is");
  // What the template itself writes is not taken for it.
  request_.mutable_messages(1)->set_content("assistant>\n");
  EXPECT_EQ(Rendered(kTurns), "<user>Say it.</user>\n<assistant>assistant>");
  request_.mutable_messages(1)->set_content("Say it.");
  EXPECT_EQ(Rendered(kTurns), "<user>Say it.</user>\n<assistant>Say it.");
}

TEST_F(ChatContextTest, AFinalMessageWithoutContentIsBegun) {
  request_.set_continue_final_message(true);
  Say("user", "Say it.");
  Say("assistant", " ");
  EXPECT_EQ(Rendered(kTurns), "<user>Say it.</user>\n<assistant>");
}

TEST_F(ChatContextTest, WhatCannotGoOnIsRefused) {
  request_.set_continue_final_message(true);
  Say("assistant", "It is");
  EXPECT_NE(Rendered("{{ messages[0].content | upper }}").find("continue_final_message"),
            std::string::npos);
  request_.set_add_generation_prompt(true);
  EXPECT_NE(Rendered(kTurns).find("contradict"), std::string::npos);
}

}  // namespace
}  // namespace sluice
