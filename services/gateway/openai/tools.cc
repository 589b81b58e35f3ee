#include "services/gateway/openai/tools.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/gateway/json/raw_member.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMaxTools = 1024;

// `written` is the same object with its members in their order.
OfferedTool ReadFunction(ObjectReader& function, const ordered_json& written) {
  OfferedTool tool;
  tool.name = function.String("name").value_or("");
  tool.description = function.String("description").value_or("");
  tool.strict = function.Bool("strict").value_or(false);
  if (const json* schema = function.Object("parameters")) {
    const ordered_json* parameters = FindMember(written, "parameters");
    const bool is_known = parameters != nullptr && parameters->is_object();
    tool.parameters = is_known ? parameters->dump() : schema->dump();
  }
  if (tool.name.empty()) {
    function.Fail("name", "missing_required_parameter",
                  absl::StrCat("Missing required parameter: '", function.PathOf("name"), "'."));
  }
  return tool;
}

OfferedTool ReadTool(ObjectReader& tool, const ordered_json& written, ToolLayout layout) {
  const std::string type = tool.String("type").value_or("");
  if (type != "function") {
    tool.Fail("type", "unsupported_value",
              absl::StrCat("Tools of type '", type, "' are not supported; accepted: 'function'."));
    return {};
  }
  if (layout == ToolLayout::kResponses) return ReadFunction(tool, written);
  const json* function = tool.Object("function");
  if (function == nullptr) {
    tool.Fail("function", "missing_required_parameter",
              absl::StrCat("Missing required parameter: '", tool.PathOf("function"), "'."));
    return {};
  }
  ObjectReader fields(*function, tool.PathOf("function"));
  const ordered_json* written_function = FindMember(written, "function");
  OfferedTool read = ReadFunction(
      fields, written_function != nullptr ? *written_function : ordered_json::object());
  tool.Fail(fields.Finish());
  return read;
}

std::vector<OfferedTool> ReadOffer(ObjectReader& reader, absl::string_view text,
                                   ToolLayout layout) {
  std::vector<OfferedTool> offered;
  const json* tools = reader.Array("tools");
  if (tools == nullptr) return offered;
  if (tools->size() > kMaxTools) {
    reader.Fail(
        "tools", "array_above_max_length",
        absl::StrCat("'tools' has ", tools->size(), " items; accepted: up to ", kMaxTools, "."));
    return offered;
  }
  if (HasLargeObject(RawMember(text, {"tools"}).value_or(""))) {
    reader.Fail("tools", "invalid_value",
                "'tools' has an object of more than 512 members; accepted: up to 512.");
    return offered;
  }
  const ordered_json written = OrderedMember(text, {"tools"});
  for (size_t i = 0; i < tools->size(); ++i) {
    ObjectReader tool((*tools)[i], absl::StrCat("tools[", i, "]"));
    const ordered_json as_written =
        written.is_array() && i < written.size() ? written[i] : ordered_json::object();
    offered.push_back(ReadTool(tool, as_written, layout));
    reader.Fail(tool.Finish());
  }
  return offered;
}

// The name in {"type": "function", ..}, wherever the layout has it; empty where there is none.
std::string NameOf(const json& reference, ToolLayout layout) {
  const json* holder = &reference;
  if (layout == ToolLayout::kChat && reference.is_object()) {
    const auto function = reference.find("function");
    holder = function != reference.end() ? &*function : nullptr;
  }
  if (holder == nullptr || !holder->is_object() || !holder->contains("name")) return "";
  const json& name = (*holder)["name"];
  return name.is_string() ? name.get<std::string>() : "";
}

// Leaves those in that are named. False where one is not offered.
bool KeepOnly(const std::vector<std::string>& names, std::vector<OfferedTool>& tools) {
  std::vector<OfferedTool> kept;
  for (const std::string& name : names) {
    const auto found = std::find_if(tools.begin(), tools.end(),
                                    [&](const OfferedTool& tool) { return tool.name == name; });
    if (found == tools.end()) return false;
    kept.push_back(*found);
  }
  tools = std::move(kept);
  return true;
}

// {"type": "allowed_tools", "mode", "tools"}; in chats these are in a member of that name.
void ReadAllowed(ObjectReader& reader, const json& value, ToolLayout layout, ToolChoice& choice) {
  const json* holder = &value;
  if (layout == ToolLayout::kChat && value.contains("allowed_tools")) {
    holder = &value["allowed_tools"];
  }
  std::vector<std::string> names;
  if (holder->is_object() && holder->contains("tools") && (*holder)["tools"].is_array()) {
    for (const json& tool : (*holder)["tools"]) names.push_back(NameOf(tool, layout));
  }
  const json mode = holder->is_object() ? holder->value("mode", json()) : json();
  if (names.empty() || (mode != "auto" && mode != "required") || !KeepOnly(names, choice.tools)) {
    return reader.Fail("tool_choice", "invalid_value",
                       "'tool_choice' of type 'allowed_tools' needs a 'mode' ('auto' or "
                       "'required') and 'tools' that are among those offered.");
  }
  choice.required = mode == "required";
}

void ReadChoice(ObjectReader& reader, ToolLayout layout, ToolChoice& choice) {
  const json* value = reader.Any("tool_choice");
  if (value == nullptr || *value == "auto") return;
  if (*value == "none") return choice.tools.clear();
  if (choice.tools.empty()) {
    return reader.Fail("tool_choice", "invalid_value",
                       "'tool_choice' is only allowed when 'tools' are specified.");
  }
  if (*value == "required") {
    choice.required = true;
    return;
  }
  const json type = value->is_object() ? value->value("type", json()) : json();
  if (type == "allowed_tools") return ReadAllowed(reader, *value, layout, choice);
  if (type == "function" && KeepOnly({NameOf(*value, layout)}, choice.tools)) {
    choice.required = true;
    return;
  }
  reader.Fail("tool_choice", type == "function" ? "invalid_value" : "unsupported_value",
              "'tool_choice' must be 'auto', 'none', 'required', or name a function that 'tools' "
              "offers.");
}

}  // namespace

ToolChoice ReadTools(ObjectReader& reader, absl::string_view text, ToolLayout layout,
                     v1::Chat& chat) {
  ToolChoice choice;
  choice.tools = ReadOffer(reader, text, layout);
  choice.parallel = reader.Bool("parallel_tool_calls").value_or(true);
  if (reader.ok()) ReadChoice(reader, layout, choice);
  if (reader.ok() && !choice.tools.empty()) chat.set_tools_json(ToolsJson(choice.tools));
  return choice;
}

}  // namespace sluice::gateway::openai
