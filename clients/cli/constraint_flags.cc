#include "clients/cli/constraint_flags.h"

#include <string>
#include <utility>

#include "clients/cli/prompt_input.h"
#include "clients/cli/text_input.h"

namespace sluice {
namespace {

// The text of a file goes to `set`.
template <class Set>
auto FromFile(Set set) {
  return [set](const std::string& path) {
    absl::StatusOr<std::string> text = ReadFile(path);
    absl::Status status = text.status();
    if (status.ok()) status = CheckUtf8(*text);
    if (status.ok()) set(*std::move(text));
    return status;
  };
}

template <class Set>
auto FromText(Set set) {
  return [set](const std::string& text) {
    const absl::Status status = CheckUtf8(text);
    if (status.ok()) set(text);
    return status;
  };
}

}  // namespace

void AddConstraintFlags(FlagSet& flags, ConstraintFlags* into, const std::string& title) {
  v1::Constraint* constraint = &into->constraint;
  flags.Section(title);
  flags.AddParsed(
      "json_schema", "FILE", "The text is JSON that this JSON Schema accepts.",
      FromFile([=](std::string text) { constraint->set_json_schema(std::move(text)); }));
  flags.AddSwitch("any_json", "The text is a JSON value.", &into->any_json);
  flags.AddParsed("regex", "PATTERN",
                  "The whole text matches this regular expression, as JavaScript has them.",
                  FromText([=](std::string text) { constraint->set_regex(std::move(text)); }));
  flags.AddParsed("grammar", "FILE",
                  "The text is of the rule `root` of this grammar in GBNF (docs/grammars.md).",
                  FromFile([=](std::string text) { constraint->set_grammar(std::move(text)); }));
  flags.AddParsed("choice", "TEXT", "The text is this one, or that of another --choice.",
                  FromText([=](std::string text) { constraint->add_choices(std::move(text)); }));
}

std::optional<v1::Constraint> ConstraintOf(const ConstraintFlags& flags) {
  if (flags.constraint.ByteSizeLong() == 0 && !flags.any_json) return std::nullopt;
  v1::Constraint constraint = flags.constraint;
  if (flags.any_json) constraint.set_any_json(true);
  return constraint;
}

void SetConstraint(const ConstraintFlags& flags, v1::GenerateRequest& request) {
  if (std::optional<v1::Constraint> constraint = ConstraintOf(flags)) {
    *request.mutable_constraint() = *std::move(constraint);
  }
}

}  // namespace sluice
