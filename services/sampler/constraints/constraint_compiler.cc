#include "services/sampler/constraints/constraint_compiler.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/common/status.h"
#include "services/constraint/grammar/gbnf.h"
#include "services/constraint/grammar/structural_tags.h"
#include "services/constraint/grammar/text_grammars.h"
#include "services/constraint/schema/schema_compiler.h"

namespace sluice {
namespace {

absl::StatusOr<RuleId> AddSchema(const std::string& schema, GrammarBuilder& builder) {
  const SchemaLimits limits;
  const absl::StatusOr<JsonValue> value = ParseJsonValue(schema, limits.json);
  if (!value.ok()) return value.status();
  return AddJsonSchema(*value, builder, limits);
}

absl::StatusOr<RuleId> AddChoicesOf(const v1::Constraint& constraint, GrammarBuilder& builder) {
  return AddChoices(
      std::vector<std::string>(constraint.choices().begin(), constraint.choices().end()), builder);
}

// With the name of the field that has the fault.
absl::StatusOr<RuleId> Named(const char* field, absl::StatusOr<RuleId> rule) {
  if (!rule.ok()) return Annotate(rule.status(), field);
  return rule;
}

// The kinds that a tag may hold.
absl::StatusOr<RuleId> AddPlain(const v1::Constraint& constraint, GrammarBuilder& builder) {
  if (constraint.has_json_schema()) {
    return Named("json_schema", AddSchema(constraint.json_schema(), builder));
  }
  if (constraint.any_json()) return Named("any_json", AddSchema("true", builder));
  if (constraint.has_regex()) return Named("regex", AddRegex(constraint.regex(), builder));
  if (constraint.has_grammar()) return Named("grammar", AddGbnf(constraint.grammar(), builder));
  return Named("choices", AddChoicesOf(constraint, builder));
}

absl::StatusOr<RuleId> AddTags(const v1::StructuralTags& message, GrammarBuilder& builder) {
  std::vector<GrammarTag> tags;
  for (const v1::StructuralTag& tag : message.tags()) {
    GrammarTag& added = tags.emplace_back(GrammarTag{.begin = tag.begin(), .end = tag.end()});
    if (!tag.has_content()) continue;
    const absl::StatusOr<RuleId> content = AddPlain(tag.content(), builder);
    if (!content.ok()) {
      return Annotate(content.status(),
                      absl::StrCat("structural_tags.tags[", tags.size() - 1, "].content"));
    }
    added.content = *content;
  }
  TagCounts counts{.min = message.min_tags()};
  if (message.has_max_tags()) counts.max = message.max_tags();
  return AddStructuralTags(tags, {message.triggers().begin(), message.triggers().end()}, counts,
                           builder);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Grammar>> CompileConstraint(
    const v1::Constraint& constraint, const std::stop_token& stop,
    const std::function<void()>& checkpoint) {
  SchemaLimits limits;
  limits.exprs.stop = stop;
  GrammarBuilder builder(limits.grammar, limits.exprs);
  if (checkpoint != nullptr) builder.space().set_checkpoint(&checkpoint);
  const absl::StatusOr<RuleId> rule = constraint.has_structural_tags()
                                          ? AddTags(constraint.structural_tags(), builder)
                                          : AddPlain(constraint, builder);
  if (stop.stop_requested()) return absl::CancelledError("nobody waits for it any more");
  if (!rule.ok()) return rule.status();
  builder.space().set_checkpoint(nullptr);  // the grammar outlives it
  return builder.Build(*rule);
}

}  // namespace sluice
