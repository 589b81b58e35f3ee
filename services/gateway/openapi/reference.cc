#include "services/gateway/openapi/reference.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "services/gateway/openapi/descriptions.h"
#include "services/gateway/openapi/path_table.h"

namespace sluice::gateway {
namespace {

constexpr char kHead[] = R"(# HTTP API reference

Made of the code that checks requests: `GET /openapi.json` of a running gateway has the same as an OpenAPI
document. What the parameters mean is explained at length in [parameters](parameters.md), [sampling](sampling.md),
[constraints](grammars.md) and [clients](clients.md); what public clients send besides in [HTTP clients](http_clients.md).

A parameter that is in no table is refused by its name. `null` stands for a parameter that is not there. Where the
server asks for [API keys](serving.md#api-keys), send `Authorization: Bearer KEY`, or `x-api-key: KEY`.
)";

// In a cell of a table.
std::string Cell(const std::string& text) { return absl::StrReplaceAll(text, {{"|", "\\|"}}); }

std::string RowOf(const std::string& name, const ParameterNote& note) {
  const std::string type = note.type.empty() ? "any" : note.type;
  return absl::StrCat("| `", name, "` | ", type, note.required ? ", required" : "", " | ",
                      Cell(AcceptedText(name, note)), " | ", Cell(DescriptionOf(name)), " |\n");
}

std::string NamesWith(const ParameterNotes& notes, ParameterUse use) {
  std::vector<std::string> names;
  for (const auto& [name, note] : notes) {
    if (note.use == use) names.push_back(absl::StrCat("`", name, "`"));
  }
  return absl::StrJoin(names, ", ");
}

std::string SectionOf(const ApiPath& path) {
  std::string text =
      absl::StrCat("\n### ", path.method, " ", path.path, "\n\n", path.summary, "\n");
  const ParameterNotes notes = ParametersOf(path);
  if (notes.empty()) return text;
  absl::StrAppend(&text, "\n| parameter | type | accepted | what it does |\n|---|---|---|---|\n");
  for (const auto& [name, note] : notes) {
    if (note.use == ParameterUse::kRead) absl::StrAppend(&text, RowOf(name, note));
  }
  const std::string ignored = NamesWith(notes, ParameterUse::kIgnored);
  if (!ignored.empty()) absl::StrAppend(&text, "\nAccepted, without effect: ", ignored, ".\n");
  const std::string refused = NamesWith(notes, ParameterUse::kRefused);
  if (!refused.empty()) absl::StrAppend(&text, "\nRefused as not supported: ", refused, ".\n");
  return text;
}

}  // namespace

std::string HttpApiReference() {
  std::string text = kHead;
  std::string group;
  for (const ApiPath& path : ApiPaths()) {
    if (group != path.group) absl::StrAppend(&text, "\n## ", path.group, "\n");
    group = path.group;
    absl::StrAppend(&text, SectionOf(path));
  }
  return text;
}

}  // namespace sluice::gateway
