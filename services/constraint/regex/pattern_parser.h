// Regular expressions as ECMA-262 has them (with the u flag's escapes, and without it what browsers
// take for literal), as trees. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "services/constraint/regex/code_set.h"

namespace sluice {

struct PatternLimits {
  size_t max_bytes = 16'384;
  int max_depth = 100;
  uint32_t max_repeat = 100'000;  // of one quantifier
};

struct PatternNode {
  enum class Kind : uint8_t { kSet, kSequence, kChoice, kRepeat, kBegin, kEnd, kLook };
  Kind kind = Kind::kSequence;
  CodeSet set;                     // kSet
  std::vector<PatternNode> inner;  // kSequence and kChoice any number, kRepeat and kLook one
  uint32_t min = 0, max = 0;       // kRepeat; max may be ExprSpace::kUnbounded
  bool negated = false;            // kLook: (?!...)
  bool has_assertion = false;      // ^, $ or a look-ahead in here
};

// INVALID_ARGUMENT with the byte where it is malformed; UNIMPLEMENTED naming what it is that no
// automaton can keep or that is not known here: back-references, look-behind, \b, flags, \p of
// scripts. RESOURCE_EXHAUSTED beyond `limits`.
absl::StatusOr<PatternNode> ParsePattern(std::string_view pattern,
                                         const PatternLimits& limits = {});

}  // namespace sluice
