// Grammars of plain texts, without JSON's layout.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "services/constraint/grammar/grammar.h"

namespace sluice {

// The texts that match `pattern` (ECMA-262) from beginning to end. INVALID_ARGUMENT where it is
// malformed or matches no text, UNIMPLEMENTED naming what can't be kept, RESOURCE_EXHAUSTED beyond
// the limits.
absl::StatusOr<std::unique_ptr<Grammar>> RegexGrammar(std::string_view pattern,
                                                      const GrammarLimits& limits = {},
                                                      const ExprLimits& expr_limits = {});

// One of `choices`. INVALID_ARGUMENT where there is none or one is empty,
// RESOURCE_EXHAUSTED beyond the limits.
absl::StatusOr<std::unique_ptr<Grammar>> ChoiceGrammar(absl::Span<const std::string> choices,
                                                       const GrammarLimits& limits = {});

// The same as rules of a grammar that is being built; a pattern that matches no text is found by
// Build.
absl::StatusOr<RuleId> AddRegex(std::string_view pattern, GrammarBuilder& builder);
absl::StatusOr<RuleId> AddChoices(absl::Span<const std::string> choices, GrammarBuilder& builder);

}  // namespace sluice
