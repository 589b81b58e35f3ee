#include "services/gateway/tool_calls/argument_types.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/tool_calls/python_calls.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

// References and unions are followed this far.
constexpr int kMaxSchemaDepth = 16;

enum Type : unsigned {
  kUnknown = 0,
  kStringType = 1,
  kIntegerType = 2,
  kNumberType = 4,
  kBooleanType = 8,
  kNullType = 16,
  kArrayType = 32,
  kObjectType = 64,
};

unsigned TypeOfName(const json& name) {
  static const auto& types = *new std::vector<std::pair<std::string, unsigned>>{
      {"string", kStringType},   {"integer", kIntegerType}, {"number", kNumberType | kIntegerType},
      {"boolean", kBooleanType}, {"null", kNullType},       {"array", kArrayType},
      {"object", kObjectType}};
  for (const auto& [known, type] : types) {
    if (name == known) return type;
  }
  return kUnknown;
}

unsigned TypeOfValue(const json& value) {
  if (value.is_string()) return kStringType;
  if (value.is_boolean()) return kBooleanType;
  if (value.is_null()) return kNullType;
  if (value.is_array()) return kArrayType;
  if (value.is_object()) return kObjectType;
  return value.is_number_integer() ? kIntegerType : kNumberType;
}

const json* Member(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// A literal of Python that is not JSON, such as {'a': True}.
std::optional<json> PythonValue(absl::string_view text) {
  const std::vector<ToolCall> calls = ParsePythonCalls(absl::StrCat("f(x=", text, ")"));
  if (calls.size() != 1) return std::nullopt;
  const absl::StatusOr<json> arguments = ParseJson(calls[0].arguments);
  if (!arguments.ok() || arguments->size() != 1 || !arguments->contains("x")) return std::nullopt;
  return (*arguments)["x"];
}

}  // namespace

ArgumentTypes::ArgumentTypes(absl::string_view schema) {
  absl::StatusOr<json> parsed = ParseJson(schema);
  if (parsed.ok()) schema_ = *std::move(parsed);
}

unsigned ArgumentTypes::TypesOf(const json& schema, int depth) const {
  if (depth > kMaxSchemaDepth) return kUnknown;
  if (const json* type = Member(schema, "type")) {
    if (!type->is_array()) return TypeOfName(*type);
    unsigned types = kUnknown;
    for (const json& each : *type) types |= TypeOfName(each);
    return types;
  }
  if (const json* value = Member(schema, "const")) return TypeOfValue(*value);
  unsigned types = kUnknown;
  if (const json* values = Member(schema, "enum"); values != nullptr && values->is_array()) {
    for (const json& value : *values) types |= TypeOfValue(value);
    return types;
  }
  for (const char* name : {"anyOf", "oneOf", "allOf"}) {
    const json* parts = Member(schema, name);
    if (parts == nullptr || !parts->is_array()) continue;
    for (const json& part : *parts) types |= TypesOf(part, depth + 1);
    return types;
  }
  const json* reference = Member(schema, "$ref");
  if (reference == nullptr || !reference->is_string()) return kUnknown;
  const std::string& target = reference->get_ref<const std::string&>();
  for (const char* name : {"$defs", "definitions"}) {
    const std::string prefix = absl::StrCat("#/", name, "/");
    const json* definitions = Member(schema_, name);
    if (definitions == nullptr || !absl::StartsWith(target, prefix)) continue;
    const json* definition = Member(*definitions, target.c_str() + prefix.size());
    if (definition != nullptr) return TypesOf(*definition, depth + 1);
  }
  return kUnknown;
}

unsigned ArgumentTypes::TypesOf(const std::string& argument) const {
  const json* properties = Member(schema_, "properties");
  const json* schema = properties == nullptr ? nullptr : Member(*properties, argument.c_str());
  if (schema == nullptr) schema = Member(schema_, "additionalProperties");
  return schema == nullptr ? kUnknown : TypesOf(*schema, 0);
}

bool ArgumentTypes::IsString(const std::string& argument) const {
  return TypesOf(argument) == kStringType;
}

std::string ArgumentTypes::Value(const std::string& argument, absl::string_view text) const {
  const unsigned types = TypesOf(argument);
  const absl::string_view literal = absl::StripAsciiWhitespace(text);
  const absl::StatusOr<json> value = ParseJson(literal);
  if (value.ok()) {
    const bool may_be_string = types == kUnknown || (types & kStringType) != 0;
    const unsigned type = TypeOfValue(*value);
    const bool fits = types == kUnknown || (types & type) != 0 || !may_be_string;
    if (fits && !(type == kStringType && may_be_string)) return std::string(literal);
  } else if (types != kStringType) {
    const std::optional<json> python = PythonValue(literal);
    if (python.has_value() && !python->is_string() &&
        (types == kUnknown || (types & TypeOfValue(*python)) != 0)) {
      return ToJson(*python);
    }
  }
  return ToJson(std::string(text));
}

std::string EscapedForJson(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      escaped += {'\\', c};
    } else if (c == '\n') {
      escaped += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&escaped, "\\u%04x", c);
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace sluice::gateway
