// Regular expressions of ECMA-262 to languages.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "services/constraint/regex/expr.h"
#include "services/constraint/regex/pattern_parser.h"

namespace sluice {

enum class PatternMatch {
  kSearch,  // somewhere in the text, as JSON Schema's `pattern` and `patternProperties`
  kWhole,   // the text from beginning to end
};

// The texts that match. Errors as ParsePattern; UNIMPLEMENTED also for assertions inside of
// repetitions; RESOURCE_EXHAUSTED where `space` is exhausted.
absl::StatusOr<ExprId> CompilePattern(std::string_view pattern, PatternMatch match,
                                      ExprSpace& space, const PatternLimits& limits = {});

}  // namespace sluice
