// Grammars in GBNF, the notation of llama.cpp, as trees: docs/grammars.md says what there is. Pure;
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "services/constraint/regex/code_set.h"

namespace sluice {

struct GbnfLimits {
  size_t max_bytes = size_t{1} << 20;
  size_t max_rules = 10'000;
  int max_depth = 100;  // of parentheses
  uint32_t max_repeat = 100'000;
};

struct GbnfNode {
  enum class Kind : uint8_t { kLiteral, kSet, kRule, kSequence, kChoice, kRepeat };
  Kind kind = Kind::kSequence;
  std::string text;             // kLiteral: UTF-8
  CodeSet set;                  // kSet
  uint32_t rule = 0;            // kRule: index in GbnfDocument::rules
  std::vector<GbnfNode> inner;  // kSequence and kChoice any number, kRepeat one
  uint32_t min = 0, max = 0;    // kRepeat; max may be ExprSpace::kUnbounded
};

struct GbnfRule {
  std::string name;
  GbnfNode body;
};

struct GbnfDocument {
  std::vector<GbnfRule> rules;
  uint32_t root = 0;
};

// INVALID_ARGUMENT with line and column where it is malformed, a rule is missing or defined twice;
// UNIMPLEMENTED for what the notation has and is not kept here; RESOURCE_EXHAUSTED beyond `limits`.
absl::StatusOr<GbnfDocument> ParseGbnf(std::string_view text, const GbnfLimits& limits = {});

}  // namespace sluice
