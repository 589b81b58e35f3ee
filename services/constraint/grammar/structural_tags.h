// Free text with tags in it: calls of tools between words. Where a trigger has been written a tag
// has begun, and the text keeps what the tag says until it ends.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "services/constraint/grammar/grammar.h"

namespace sluice {

// All texts are UTF-8.
struct GrammarTag {
  std::string begin;              // not empty
  std::optional<RuleId> content;  // nothing: any text in which `end` does not come
  std::string end;                // not empty where there is no content
};

struct TagCounts {
  int min = 0;
  std::optional<int> max;  // at least 1; nothing: any number
};

// Adds a rule of the texts in which every trigger begins one of the tags. Each `begin` starts with
// one of `triggers`; no triggers: with itself.
RuleId AddStructuralTags(absl::Span<const GrammarTag> tags, std::vector<std::string> triggers,
                         const TagCounts& counts, GrammarBuilder& builder);

}  // namespace sluice
