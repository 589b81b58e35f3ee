#include "services/tokenizer/regex/regex_json.h"

#include <string>

#include "services/tokenizer/text/json_place.h"

namespace sluice {

absl::StatusOr<Regex> RegexFromJson(const JsonPlace& pattern) {
  const JsonPlace regex = pattern.Member("Regex");
  const JsonPlace literal = pattern.Member("String");
  if (regex.value->is_string() == literal.value->is_string()) {
    return pattern.Reject("{\"Regex\": a string} or {\"String\": a string}");
  }
  const JsonPlace& given = regex.value->is_string() ? regex : literal;
  const std::string text = given.value->get<std::string>();
  absl::StatusOr<Regex> compiled =
      regex.value->is_string() ? Regex::Compile(text) : Regex::Literal(text);
  if (!compiled.ok()) return given.Annotate(compiled.status());
  return compiled;
}

}  // namespace sluice
