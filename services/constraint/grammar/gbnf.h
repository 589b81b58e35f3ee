// GBNF (gbnf_parser.h) to a grammar. Rules that don't lead back to themselves become languages
// (regex/expr.h), whose states are few; the others call each other.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "services/constraint/grammar/gbnf_parser.h"
#include "services/constraint/grammar/grammar.h"

namespace sluice {

// The texts of the rule `root`. Errors as ParseGbnf; INVALID_ARGUMENT also naming a rule that calls
// itself before its first character, or where no text is of the grammar; RESOURCE_EXHAUSTED beyond
// the limits.
absl::StatusOr<std::unique_ptr<Grammar>> GbnfGrammar(std::string_view text,
                                                     const GbnfLimits& limits = {},
                                                     const GrammarLimits& grammar_limits = {},
                                                     const ExprLimits& expr_limits = {});

// Adds these texts as a rule to a grammar that is being built. Errors as above, but for what Build
// says.
absl::StatusOr<RuleId> AddGbnf(std::string_view text, GrammarBuilder& builder,
                               const GbnfLimits& limits = {});

}  // namespace sluice
