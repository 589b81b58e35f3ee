#include "services/gateway/openai/tools.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/raw_member.h"
#include "services/gateway/openai/ignored_fields.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

constexpr size_t kMaxTools = 1024;

// Of the Responses API, run by OpenAI's servers or known to OpenAI's models alone. Agents send them
// along with their functions.
constexpr absl::string_view kForeignTypes[] = {"apply_patch",
                                               "code_interpreter",
                                               "computer",
                                               "computer_use_preview",
                                               "custom",
                                               "file_search",
                                               "image_generation",
                                               "local_shell",
                                               "mcp",
                                               "namespace",
                                               "shell",
                                               "tool_search",
                                               "web_search",
                                               "web_search_2025_08_26",
                                               "web_search_preview",
                                               "web_search_preview_2025_03_11"};

// `raw` is the text of the same object.
OfferedTool ReadFunction(ObjectReader& function, absl::string_view raw) {
  OfferedTool tool;
  tool.name = function.String("name").value_or("");
  tool.description = function.String("description").value_or("");
  tool.strict = function.Bool("strict").value_or(false);
  function.PassOver(kIgnoredToolFields);
  if (const json* schema = function.Object("parameters")) {
    const std::optional<absl::string_view> written = RawMember(raw, {"parameters"});
    tool.parameters = written.has_value() ? std::string(*written) : ToJson(*schema);
  }
  if (tool.name.empty()) {
    function.Fail("name", "missing_required_parameter",
                  absl::StrCat("Missing required parameter: '", function.PathOf("name"), "'."));
  }
  return tool;
}

OfferedTool ReadTool(ObjectReader& tool, absl::string_view raw, ToolLayout layout) {
  const std::string type = tool.String("type").value_or("");
  if (type != "function") {
    tool.Fail("type", "unsupported_value",
              absl::StrCat("Tools of type '", type, "' are not supported; accepted: 'function'."));
    return {};
  }
  if (layout == ToolLayout::kResponses) return ReadFunction(tool, raw);
  tool.PassOver(kIgnoredToolFields);
  const json* function = tool.Object("function");
  if (function == nullptr) {
    tool.Fail("function", "missing_required_parameter",
              absl::StrCat("Missing required parameter: '", tool.PathOf("function"), "'."));
    return {};
  }
  ObjectReader fields(*function, tool.PathOf("function"));
  OfferedTool read = ReadFunction(fields, RawMember(raw, {"function"}).value_or(""));
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
  const absl::string_view all = RawMember(text, {"tools"}).value_or("");
  if (HasLargeObject(all)) {
    reader.Fail("tools", "invalid_value",
                "'tools' has an object of more than 512 members; accepted: up to 512.");
    return offered;
  }
  const std::vector<absl::string_view> raw = RawElements(all);
  for (size_t i = 0; i < tools->size(); ++i) {
    if (layout == ToolLayout::kResponses && IsForeignTool((*tools)[i])) continue;
    ObjectReader tool((*tools)[i], absl::StrCat("tools[", i, "]"));
    offered.push_back(ReadTool(tool, i < raw.size() ? raw[i] : "", layout));
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

bool IsForeignTool(const json& tool) {
  if (!tool.is_object()) return false;
  const auto type = tool.find("type");
  return type != tool.end() && type->is_string() &&
         std::find(std::begin(kForeignTypes), std::end(kForeignTypes),
                   type->get_ref<const std::string&>()) != std::end(kForeignTypes);
}

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
