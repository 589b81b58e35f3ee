// JSON Schema to a grammar of the JSON texts that keep it: README.md says which keywords are kept
// and how texts are laid out.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "services/constraint/grammar/grammar.h"
#include "services/constraint/json/json_value.h"
#include "services/constraint/schema/normalizer.h"

namespace sluice {

struct SchemaLimits {
  JsonLimits json;
  GrammarLimits grammar{.max_nodes = 200'000, .max_edges = 600'000};
  ExprLimits exprs;
  SchemaNormalizer::Limits normalizer;
};

// INVALID_ARGUMENT where `schema` is malformed or no value keeps it, UNIMPLEMENTED naming place and
// keyword of what can't be kept, NOT_FOUND where a $ref leads outside of it, RESOURCE_EXHAUSTED
// beyond `limits`.
absl::StatusOr<std::unique_ptr<Grammar>> CompileJsonSchema(std::string_view schema,
                                                           const SchemaLimits& limits = {});
absl::StatusOr<std::unique_ptr<Grammar>> CompileJsonSchema(const JsonValue& schema,
                                                           const SchemaLimits& limits = {});

// Adds a rule of the texts that keep `schema` to a grammar that is being built. Errors as above,
// but for what Build says.
absl::StatusOr<RuleId> AddJsonSchema(const JsonValue& schema, GrammarBuilder& builder,
                                     const SchemaLimits& limits = {});

}  // namespace sluice
