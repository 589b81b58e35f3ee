#include "services/gateway/openai/constraint.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/raw_member.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

constexpr char kAnyObject[] = R"({"type": "object"})";

void Take(ObjectReader& reader, const char* name, v1::Constraint constraint,
          v1::GenerateRequest& request) {
  if (request.has_constraint()) {
    return reader.Fail(name, "invalid_value",
                       absl::StrCat("'", reader.PathOf(name),
                                    "' and another parameter both say what the text must keep; at "
                                    "most one may."));
  }
  *request.mutable_constraint() = std::move(constraint);
}

void TakeSchema(ObjectReader& reader, const char* name, absl::string_view schema,
                v1::GenerateRequest& request) {
  v1::Constraint constraint;
  constraint.set_json_schema(std::string(schema));
  Take(reader, name, std::move(constraint), request);
}

// The schema, and what describes it. `raw` is the schema as it was sent, where that is known.
void ReadSchema(ObjectReader& holder, std::optional<absl::string_view> raw,
                v1::GenerateRequest& request) {
  const json* schema = holder.Object("schema");
  holder.String("name");
  holder.String("description");
  holder.Bool("strict");  // what can't be kept is refused in any case
  if (schema == nullptr) {
    return holder.Fail(
        "schema", "missing_required_parameter",
        absl::StrCat("Missing required parameter: '", holder.PathOf("schema"), "'."));
  }
  TakeSchema(holder, "schema", raw.has_value() ? std::string(*raw) : ToJson(*schema), request);
}

// "text" and "json_object"; true for "json_schema".
bool AsksForSchema(ObjectReader& format, v1::GenerateRequest& request) {
  const std::string type = format.String("type").value_or("");
  if (type == "json_object") TakeSchema(format, "type", kAnyObject, request);
  if (type != "text" && type != "json_object" && type != "json_schema") {
    format.Fail("type", "invalid_value",
                absl::StrCat("Invalid value: '", type,
                             "'. Supported values are: 'text', 'json_object', 'json_schema'."));
  }
  return type == "json_schema";
}

void ReadResponseFormat(ObjectReader& reader, absl::string_view text,
                        v1::GenerateRequest& request) {
  const json* format = reader.Object("response_format");
  if (format == nullptr) return;
  ObjectReader fields(*format, reader.PathOf("response_format"));
  if (AsksForSchema(fields, request)) {
    if (const json* holder = fields.Object("json_schema")) {
      ObjectReader inner(*holder, fields.PathOf("json_schema"));
      ReadSchema(inner, RawMember(text, {"response_format", "json_schema", "schema"}), request);
      fields.Fail(inner.Finish());
    } else {
      fields.Fail("json_schema", "missing_required_parameter",
                  "Missing required parameter: 'response_format.json_schema'.");
    }
  }
  reader.Fail(fields.Finish());
}

// A schema as an object, or as the text of one.
void ReadJson(ObjectReader& reader, const char* name, std::optional<absl::string_view> raw,
              v1::GenerateRequest& request) {
  const json* schema = reader.Any(name);
  if (schema == nullptr) return;
  if (schema->is_string()) {
    TakeSchema(reader, name, schema->get_ref<const std::string&>(), request);
  } else if (schema->is_object()) {
    TakeSchema(reader, name, raw.has_value() ? std::string(*raw) : ToJson(*schema), request);
  } else {
    reader.Fail(name, "invalid_type",
                absl::StrCat("'", reader.PathOf(name),
                             "' must be a JSON schema: an object, or the "
                             "text of one."));
  }
}

void ReadRegex(ObjectReader& reader, const char* name, v1::GenerateRequest& request) {
  if (const auto regex = reader.String(name)) {
    v1::Constraint constraint;
    constraint.set_regex(*regex);
    Take(reader, name, std::move(constraint), request);
  }
}

void ReadGrammar(ObjectReader& reader, const char* name, v1::GenerateRequest& request) {
  if (const auto grammar = reader.String(name)) {
    v1::Constraint constraint;
    constraint.set_grammar(*grammar);
    Take(reader, name, std::move(constraint), request);
  }
}

void ReadChoice(ObjectReader& reader, const char* name, v1::GenerateRequest& request) {
  const json* choices = reader.Array(name);
  if (choices == nullptr) return;
  v1::Constraint constraint;
  for (const json& choice : *choices) {
    if (!choice.is_string() || choice.get_ref<const std::string&>().empty()) break;
    constraint.add_choices(choice.get<std::string>());
  }
  if (choices->empty() || static_cast<size_t>(constraint.choices_size()) != choices->size()) {
    return reader.Fail(name, "invalid_type",
                       absl::StrCat("'", reader.PathOf(name),
                                    "' must be an array of strings, none "
                                    "of them empty."));
  }
  Take(reader, name, std::move(constraint), request);
}

void ReadStructuredOutputs(ObjectReader& reader, absl::string_view text,
                           v1::GenerateRequest& request) {
  const json* outputs = reader.Object("structured_outputs");
  if (outputs == nullptr) return;
  ObjectReader fields(*outputs, reader.PathOf("structured_outputs"));
  ReadJson(fields, "json", RawMember(text, {"structured_outputs", "json"}), request);
  ReadRegex(fields, "regex", request);
  ReadChoice(fields, "choice", request);
  ReadGrammar(fields, "grammar", request);
  if (fields.Bool("json_object").value_or(false)) {
    TakeSchema(fields, "json_object", kAnyObject, request);
  }
  fields.Refuse({"structural_tag", "whitespace_pattern", "disable_fallback",
                 "disable_any_whitespace", "disable_additional_properties"},
                "this server does not support it");
  reader.Fail(fields.Finish());
}

}  // namespace

std::string ReadConstraint(ObjectReader& reader, absl::string_view text,
                           v1::GenerateRequest& request) {
  std::string parameter;
  const auto note = [&](const char* name) {
    if (request.has_constraint() && parameter.empty()) parameter = name;
  };
  ReadResponseFormat(reader, text, request);
  note("response_format");
  ReadJson(reader, "guided_json", RawMember(text, {"guided_json"}), request);
  note("guided_json");
  ReadRegex(reader, "guided_regex", request);
  note("guided_regex");
  ReadChoice(reader, "guided_choice", request);
  note("guided_choice");
  ReadGrammar(reader, "guided_grammar", request);
  note("guided_grammar");
  ReadStructuredOutputs(reader, text, request);
  note("structured_outputs");
  return parameter;
}

void ReadTextFormat(ObjectReader& fields, absl::string_view text, v1::GenerateRequest& request) {
  const json* format = fields.Object("format");
  if (format == nullptr) return;
  ObjectReader inner(*format, fields.PathOf("format"));
  if (AsksForSchema(inner, request)) {
    ReadSchema(inner, RawMember(text, {"text", "format", "schema"}), request);
  }
  fields.Fail(inner.Finish());
}

}  // namespace sluice::gateway::openai
