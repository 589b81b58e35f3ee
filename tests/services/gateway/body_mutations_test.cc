// Bodies of every path, changed member by member in ways that keep them JSON: whatever a client
// sends, the gateway answers it, and goes on.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/gateway/gateway_server.h"
#include "tests/testing/fake_orchestrator.h"
#include "tests/testing/http_client.h"

namespace sluice::gateway {
namespace {

using nlohmann::ordered_json;
using testing::FakeOrchestrator;
using testing::HttpClient;

// A JSON value as text in parts, so that a name may come twice, or be spelt with escapes.
struct Node {
  std::string scalar;  // of what is neither
  bool is_object = false;
  bool is_array = false;
  std::vector<std::pair<std::string, Node>> members;  // names as they are written; none in arrays

  std::string Text() const {
    if (!is_object && !is_array) return scalar;
    std::string text(1, is_object ? '{' : '[');
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0) text += ',';
      if (is_object) absl::StrAppend(&text, members[i].first, ":");
      text += members[i].second.Text();
    }
    return text + (is_object ? '}' : ']');
  }
};

Node NodeOf(const ordered_json& value) {
  Node node;
  node.is_object = value.is_object();
  node.is_array = value.is_array();
  if (!value.is_structured()) node.scalar = value.dump();
  for (const auto& [name, member] : value.items()) {
    if (value.is_structured()) {
      node.members.emplace_back(ordered_json(name).dump(), NodeOf(member));
    }
  }
  return node;
}

Node Raw(const char* text) { return NodeOf(ordered_json::parse(text)); }

// The same name, its first character as an escape.
std::string Escaped(const std::string& name) {
  return absl::StrFormat("\"\\u%04x%s", name[1], name.substr(2));
}

const std::vector<Node>& Replacements() {
  static const auto* const replacements =
      new std::vector<Node>{Raw("null"),
                            Raw("true"),
                            Raw("0"),
                            Raw("-1"),
                            Raw("1.5"),
                            Raw("18446744073709551615"),
                            Raw(R"("")"),
                            Raw(R"("x")"),
                            Raw(R"("\u0000")"),
                            Raw("[]"),
                            Raw("{}"),
                            Raw("[null]"),
                            Raw(R"([[1]])"),
                            Raw(R"({"type": "function", "name": "f", "tools": [1]})"),
                            Raw(R"([{"type": "text", "text": 1}])")};
  return *replacements;
}

// Calls `use` with the text of `root` after each change of `node` and of what is below it.
template <class Use>
void ChangeEach(const Node& root, Node& node, const Use& use) {
  const Node before = node;
  for (const Node& replacement : Replacements()) {
    node = replacement;
    use(root.Text());
  }
  node = before;
  for (size_t i = 0; i < before.members.size(); ++i) {
    node.members.erase(node.members.begin() + static_cast<ptrdiff_t>(i));
    use(root.Text());
    node = before;
    if (!node.is_object) continue;
    const std::string escaped = Escaped(before.members[i].first);
    node.members[i].first = escaped;
    use(root.Text());
    for (const char* other : {"5", "\"x\"", "[]", "{}", R"([{"function": {"name": "g"}}])"}) {
      for (const size_t at : {size_t{0}, before.members.size()}) {
        node = before;
        node.members.emplace(node.members.begin() + static_cast<ptrdiff_t>(at), escaped,
                             Raw(other));
        use(root.Text());
      }
    }
    node = before;
  }
  for (auto& member : node.members) ChangeEach(root, member.second, use);
}

struct Endpoint {
  const char* path;
  const char* body;
};

constexpr Endpoint kEndpoints[] = {
    {"/v1/completions",
     R"({"model": "model", "prompt": ["a", [1, 2]], "max_tokens": 2, "logprobs": 2, "echo": true,
         "stop": ["x"], "logit_bias": {"5": 1}, "bad_words": ["b"], "n": 2, "seed": 1,
         "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema":
         {"type": "object"}}}})"},
    {"/v1/completions",
     R"({"prompt": [1, 2], "stream": true, "stream_options": {"include_usage": true},
         "use_beam_search": true, "beam_width": 2, "structured_outputs": {"choice": ["a"]}})"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content":
         [{"type": "text", "text": "t"}]}, {"role": "assistant", "tool_calls": [{"id": "c",
         "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
         {"role": "tool", "tool_call_id": "c", "content": "r"}],
         "tools": [{"type": "function", "function": {"name": "f", "description": "d", "strict":
         true, "parameters": {"type": "object", "properties": {"b": {}, "a": {}}}}},
         {"type": "function", "function": {"name": "g"}}],
         "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools":
         [{"type": "function", "function": {"name": "f"}}]}}, "parallel_tool_calls": false,
         "chat_template_kwargs": {"x": 1}, "logprobs": true, "top_logprobs": 1})"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "u"}], "stream": true, "tools": [{"type":
         "function", "function": {"name": "f", "parameters": {"type": "object"}}}], "tool_choice":
         "required", "prediction": {"type": "content", "content": "p"}, "modalities": ["text"]})"},
    {"/v1/responses",
     R"({"instructions": "i", "input": [{"role": "user", "content": [{"type": "input_text", "text":
         "t"}]}, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
         {"type": "function_call_output", "call_id": "c", "output": "o"}], "tools": [{"type":
         "function", "name": "f", "parameters": {"type": "object"}}], "tool_choice": {"type":
         "function", "name": "f"}, "text": {"format": {"type": "json_schema", "name": "n",
         "schema": {"type": "object"}}}, "reasoning": {"effort": "low"}, "metadata": {"a": "b"}})"},
    {"/v1/messages",
     R"({"max_tokens": 3, "system": [{"type": "text", "text": "s"}], "messages": [{"role": "user",
         "content": "u"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name":
         "f", "input": {"a": 1}}]}, {"role": "user", "content": [{"type": "tool_result",
         "tool_use_id": "c", "content": [{"type": "text", "text": "t"}]}]}], "tools": [{"name":
         "f", "input_schema": {"type": "object", "properties": {"a": {}}}}], "tool_choice":
         {"type": "tool", "name": "f"}, "thinking": {"type": "disabled"}, "stop_sequences": ["x"],
         "stream": true})"},
    {"/v1/messages/count_tokens",
     R"({"messages": [{"role": "user", "content": "u"}], "tools": [{"name": "f", "input_schema":
         {"type": "object"}}], "tool_choice": {"type": "any"}})"},
    {"/tokenize", R"({"messages": [{"role": "user", "content": "u"}], "tools": [{"type": "function",
         "function": {"name": "f", "parameters": {}}}]})"},
    {"/tokenize", R"({"prompt": "a", "add_special_tokens": true})"},
    {"/detokenize", R"({"tokens": [1, 2]})"},
    {"/v1/score", R"({"prompt": ["a", "b"], "top_logprobs": 2, "priority": 1})"},
};

TEST(BodyMutationsTest, EveryBodyIsAnswered) {
  FakeOrchestrator orchestrator;
  auto gateway = GatewayServer::Start(
      {.models = {{.orchestrators = {orchestrator.Channel()}}}, .listen = "127.0.0.1:0"});
  ASSERT_TRUE(gateway.ok()) << gateway.status();
  HttpClient client((*gateway)->address());
  for (const Endpoint& endpoint : kEndpoints) {
    const auto post = [&](const std::string& body) {
      client.Send(absl::StrCat("POST ", endpoint.path,
                               " HTTP/1.1\r\nhost: localhost\r\ncontent-length: ", body.size(),
                               "\r\n\r\n", body));
      const std::string response = client.ReadResponse();
      const bool is_answered =
          absl::StartsWith(response, "HTTP/1.1 200 ") || absl::StartsWith(response, "HTTP/1.1 4");
      ASSERT_TRUE(is_answered) << endpoint.path << " " << body << "\n" << response;
      ASSERT_FALSE(absl::StrContains(response, "server_error")) << body << "\n" << response;
    };
    Node root = NodeOf(ordered_json::parse(endpoint.body));
    post(root.Text());
    ChangeEach(root, root, post);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace sluice::gateway
