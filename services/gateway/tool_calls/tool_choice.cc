#include "services/gateway/tool_calls/tool_choice.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/json/object_writer.h"

namespace sluice::gateway {
namespace {

using nlohmann::ordered_json;

constexpr char kAnyObject[] = R"({"type": "object"})";
// Of functions that are offered without any.
constexpr char kNoParameters[] = R"({"type": "object", "additionalProperties": false})";

// How a call is written around its arguments; what begins one is found in no other text.
struct CallTags {
  const char* trigger;
  const char* before_name;
  const char* before_arguments;
  const char* end;
};

// Of the formats that are made of plain text: special tokens stand in no constraint.
std::optional<CallTags> CallTagsOf(ToolFormat format) {
  switch (format) {
    case ToolFormat::kHermes:
      return CallTags{"<tool_call>",
                      "<tool_call>\n{\"name\": ", ", \"arguments\": ", "}\n</tool_call>"};
    case ToolFormat::kLlamaJson:
      return CallTags{"{\"name\"", "{\"name\": ", ", \"parameters\": ", "}"};
    case ToolFormat::kPhi:
      return CallTags{"functools[", "functools[{\"name\": ", ", \"arguments\": ", "}]"};
    case ToolFormat::kNone:
    case ToolFormat::kPythonic:
    case ToolFormat::kMistral:
    case ToolFormat::kGemma:
    case ToolFormat::kGemma4:
    case ToolFormat::kQwenXml:
    case ToolFormat::kGlm:
    case ToolFormat::kDeepSeek:
    case ToolFormat::kDsml:
    case ToolFormat::kKimi:
    case ToolFormat::kGranite:
    case ToolFormat::kLfm:
    case ToolFormat::kCohere:
    case ToolFormat::kNemotron:
    case ToolFormat::kOlmo:
    case ToolFormat::kHarmony:
      return std::nullopt;
  }
  return std::nullopt;
}

std::string SchemaOf(const OfferedTool& tool) {
  return tool.parameters.empty() ? kNoParameters : tool.parameters;
}

// An empty object where the text is none.
ordered_json Parsed(const std::string& schema) {
  ordered_json parsed = ordered_json::parse(schema, nullptr, /*allow_exceptions=*/false);
  return parsed.is_object() ? parsed : ordered_json::object();
}

// An array of calls. A schema's references are to itself, so each gets a name of its own.
std::string SchemaOfCalls(const ToolChoice& choice) {
  ordered_json calls = ordered_json::array();
  for (size_t i = 0; i < choice.tools.size(); ++i) {
    ordered_json arguments = Parsed(SchemaOf(choice.tools[i]));
    if (!arguments.contains("$id")) arguments["$id"] = absl::StrCat("tool:", i);
    ordered_json call = {
        {"type", "object"},
        {"properties", {{"name", {{"const", choice.tools[i].name}}}, {"arguments", arguments}}},
        {"required", {"name", "arguments"}},
        {"additionalProperties", false}};
    calls.push_back(std::move(call));
  }
  ordered_json schema = {{"type", "array"}, {"minItems", 1}, {"items", {{"anyOf", calls}}}};
  if (!choice.parallel) schema["maxItems"] = 1;
  // Read at the top of a schema alone: those of the first tool that has them hold for all calls.
  for (const char* option : {"x-integers", "x-whitespace"}) {
    for (const OfferedTool& tool : choice.tools) {
      const ordered_json arguments = Parsed(SchemaOf(tool));
      if (schema.contains(option) || !arguments.contains(option)) continue;
      schema[option] = arguments[option];
    }
  }
  return schema.dump();
}

v1::Constraint RequiredCalls(const ToolChoice& choice) {
  v1::Constraint constraint;
  constraint.set_json_schema(OnlyTool(choice).empty() ? SchemaOfCalls(choice)
                                                      : SchemaOf(choice.tools[0]));
  return constraint;
}

v1::Constraint StrictCalls(const ToolChoice& choice, const CallTags& tags) {
  v1::Constraint constraint;
  v1::StructuralTags& structure = *constraint.mutable_structural_tags();
  structure.add_triggers(tags.trigger);
  for (const OfferedTool& tool : choice.tools) {
    v1::StructuralTag& tag = *structure.add_tags();
    tag.set_begin(
        absl::StrCat(tags.before_name, ordered_json(tool.name).dump(), tags.before_arguments));
    tag.mutable_content()->set_json_schema(tool.strict ? SchemaOf(tool) : kAnyObject);
    tag.set_end(tags.end);
  }
  if (!choice.parallel) structure.set_max_tags(1);
  return constraint;
}

}  // namespace

std::string ToolsJson(const std::vector<OfferedTool>& tools) {
  if (tools.empty()) return "";
  std::vector<std::string> result;
  for (const OfferedTool& tool : tools) {
    ObjectWriter function;
    function.Add("name", tool.name);
    if (!tool.description.empty()) function.Add("description", tool.description);
    if (!tool.parameters.empty()) function.AddText("parameters", tool.parameters);
    result.push_back(
        ObjectWriter().Add("type", "function").AddText("function", function.Text()).Text());
  }
  return absl::StrCat("[", absl::StrJoin(result, ","), "]");
}

std::string OnlyTool(const ToolChoice& choice) {
  return choice.required && choice.tools.size() == 1 ? choice.tools[0].name : "";
}

absl::StatusOr<std::optional<v1::Constraint>> ToolConstraint(const ToolChoice& choice,
                                                             ToolFormat format) {
  if (choice.tools.empty()) return std::nullopt;
  if (choice.required) return RequiredCalls(choice);
  const bool is_strict = std::any_of(choice.tools.begin(), choice.tools.end(),
                                     [](const OfferedTool& tool) { return tool.strict; });
  if (!is_strict || format == ToolFormat::kNone) return std::nullopt;
  const std::optional<CallTags> tags = CallTagsOf(format);
  if (!tags.has_value()) {
    return ParameterError("tools", "unsupported_value",
                          "'strict' can't be kept where the model is free to call a tool or not: "
                          "this model writes calls in a way that no constraint describes. Leave "
                          "'strict' out, or require a call with 'tool_choice'.");
  }
  return StrictCalls(choice, *tags);
}

}  // namespace sluice::gateway
