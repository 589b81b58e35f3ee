#include "services/gateway/openapi/openapi.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/openapi/descriptions.h"
#include "services/gateway/openapi/path_table.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

// Beyond these a bound is that of the type.
bool IsBound(int64_t value) { return value > -kMaxInt32 && value < kMaxInt32; }

json SchemaOf(const std::string& path, const ParameterNote& note) {
  json schema = json::object();
  if (!note.type.empty()) schema["type"] = note.type;
  if (note.type == "object") schema["properties"] = json::object();
  if (note.min.has_value() && IsBound(*note.min)) schema["minimum"] = *note.min;
  if (note.max.has_value() && IsBound(*note.max)) schema["maximum"] = *note.max;
  std::string text =
      note.use == ParameterUse::kIgnored ? "Accepted, and without effect." : DescriptionOf(path);
  const std::string accepted = AcceptedText(path, note);
  if (!accepted.empty())
    absl::StrAppend(&text, text.empty() ? "" : " ", "Accepted: ", accepted, ".");
  if (!text.empty()) schema["description"] = text;
  return schema;
}

// The schema that holds the members of `path`, made where it is not there yet.
json& HolderOf(json& root, const std::vector<std::string>& names) {
  json* at = &root;
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    const absl::string_view name = names[i];
    const bool is_array = absl::EndsWith(name, "[]");
    at = &(*at)["properties"][std::string(absl::StripSuffix(name, "[]"))];
    if (!is_array) continue;
    at = &(*at)["items"];
    (*at)["type"] = "object";
  }
  return *at;
}

json BodySchema(const ApiPath& path) {
  // A member that is not among them is refused by its name.
  json schema = {
      {"type", "object"}, {"properties", json::object()}, {"additionalProperties", false}};
  for (const auto& [name, note] : ParametersOf(path)) {
    if (note.use == ParameterUse::kRefused) continue;
    const std::vector<std::string> names = absl::StrSplit(name, '.');
    json& holder = HolderOf(schema, names);
    holder["properties"][names.back()].update(SchemaOf(name, note));
    if (note.required) holder["required"].push_back(names.back());
  }
  return schema;
}

// "model" of "/v1/models/{model}"; empty where there is none.
std::string VariableOf(absl::string_view path) {
  const size_t begin = path.find('{');
  if (begin == absl::string_view::npos) return "";
  return std::string(path.substr(begin + 1, path.find('}') - begin - 1));
}

json OperationOf(const ApiPath& path) {
  json operation = {{"summary", path.summary},
                    {"tags", json::array({path.group})},
                    {"responses",
                     {{"200", {{"description", "The answer."}}},
                      {"4XX", {{"description", "A fault of the request, by parameter."}}},
                      {"5XX", {{"description", "The pipeline does not serve for now."}}}}}};
  const std::string name = VariableOf(path.path);
  if (!name.empty()) {
    operation["parameters"] = json::array(
        {{{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}}});
  }
  if (path.form != nullptr) {
    operation["requestBody"] = {
        {"required", true},
        {"content", {{"multipart/form-data", {{"schema", json::parse(path.form)}}}}}};
  }
  if (path.check == nullptr) return operation;
  operation["requestBody"] = {{"required", true},
                              {"content", {{"application/json", {{"schema", BodySchema(path)}}}}}};
  return operation;
}

}  // namespace

json OpenApiDocument() {
  json paths = json::object();
  for (const ApiPath& path : ApiPaths()) {
    paths[path.path][absl::AsciiStrToLower(path.method)] = OperationOf(path);
  }
  json document = {{"openapi", "3.1.0"},
                   {"info", {{"title", "Sluice"}, {"version", SLUICE_VERSION}}},
                   {"paths", std::move(paths)}};
  document["components"]["securitySchemes"]["key"] = {{"type", "http"}, {"scheme", "bearer"}};
  // An API key where the server asks for one.
  document["security"] = json::array({json::object(), {{"key", json::array()}}});
  return document;
}

void AddOpenApiRoute(http::Router& router) {
  router.Add("GET", "/openapi.json", [](const std::shared_ptr<http::Exchange>& exchange) {
    static const auto& text = *new std::string(ToJson(OpenApiDocument()));
    exchange->Respond({.headers = {{"content-type", "application/json"}}, .body = text});
  });
}

}  // namespace sluice::gateway
