#include "services/constraint/schema/schema_compiler.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "services/constraint/json/message.h"
#include "services/constraint/schema/reference_cycles.h"
#include "services/constraint/schema/schema_index.h"
#include "services/constraint/schema/value_rules.h"

namespace sluice {
namespace {

absl::StatusOr<JsonSpacing> SpacingOf(const JsonValue& schema) {
  const JsonValue* spacing = schema.Find("x-whitespace");
  if (spacing == nullptr || spacing->text == "space") return JsonSpacing::kOneSpace;
  if (spacing->text == "none") return JsonSpacing::kNone;
  if (spacing->text == "any") return JsonSpacing::kAny;
  return absl::InvalidArgumentError(Message("#/x-whitespace is ", JsonText(*spacing).substr(0, 60),
                                            "; accepted: \"none\", \"space\", \"any\""));
}

}  // namespace

absl::StatusOr<RuleId> AddJsonSchema(const JsonValue& schema, GrammarBuilder& builder,
                                     const SchemaLimits& limits) {
  const auto spacing = SpacingOf(schema);
  if (!spacing.ok()) return spacing.status();
  auto index = SchemaIndex::Create(schema);
  if (!index.ok()) return index.status();
  if (absl::Status status = CheckReferenceCycles(schema, *index); !status.ok()) return status;
  SchemaNormalizer normalizer(*index, builder.space(), limits.normalizer);
  ValueRules rules(*index, normalizer, builder, *spacing);
  const RuleId start = rules.RuleOf({Claim{.node = &schema}});
  if (absl::Status status = rules.Finish(); !status.ok()) return status;
  return start;
}

absl::StatusOr<std::unique_ptr<Grammar>> CompileJsonSchema(const JsonValue& schema,
                                                           const SchemaLimits& limits) {
  GrammarBuilder builder(limits.grammar, limits.exprs);
  const auto start = AddJsonSchema(schema, builder, limits);
  if (!start.ok()) return start.status();
  return builder.Build(*start);
}

absl::StatusOr<std::unique_ptr<Grammar>> CompileJsonSchema(std::string_view schema,
                                                           const SchemaLimits& limits) {
  const auto value = ParseJsonValue(schema, limits.json);
  if (!value.ok()) return value.status();
  return CompileJsonSchema(*value, limits);
}

}  // namespace sluice
