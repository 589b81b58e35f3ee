#include "services/constraint/grammar/structural_tags.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

class TagRule {
 public:
  TagRule(absl::Span<const GrammarTag> tags, std::vector<std::string> triggers,
          GrammarBuilder& builder)
      : tags_(tags), triggers_(std::move(triggers)), builder_(builder), space_(builder.space()) {
    std::vector<ExprId> literals;
    for (const std::string& trigger : triggers_) literals.push_back(space_.Literal(trigger));
    any_trigger_ = space_.Or(std::move(literals));
  }

  RuleId Add(const TagCounts& counts) {
    const RuleId rule = builder_.AddRule("tags");
    // Behind the last node nothing is counted any more: it leads to itself, or to no tag.
    const int last = counts.max.value_or(counts.min);
    NodeId from = builder_.StartOf(rule);
    for (int count = 0; count <= last; ++count) {
      if (count >= counts.min) AddEnd(from);
      const bool is_last = count == last;
      if (is_last && counts.max.has_value()) break;
      const NodeId next = is_last ? from : builder_.AddNode();
      AddTags(from, next);
      from = next;
    }
    return rule;
  }

 private:
  // Any text, then `what`, which does not come in it before.
  ExprId UntilFirst(ExprId what, ExprId end) {
    const ExprId some = space_.AnyTextOfLength(1, ExprSpace::kUnbounded);
    const ExprId earlier = space_.Concat(space_.AnyText(), space_.Concat(what, some));
    return space_.And({space_.Concat(space_.AnyText(), end), space_.Not(earlier)});
  }

  // Free text without a trigger, to the end.
  void AddEnd(NodeId from) {
    const NodeId end = builder_.AddNode();
    builder_.Accept(end);
    const ExprId triggered =
        space_.Concat(space_.AnyText(), space_.Concat(any_trigger_, space_.AnyText()));
    builder_.AddText(from, space_.Not(triggered), Spelling::kPlain, end);
  }

  // Free text up to the first trigger, and the tags that it begins.
  void AddTags(NodeId from, NodeId to) {
    for (const std::string& trigger : triggers_) {
      const NodeId begun = builder_.AddNode();
      const ExprId until = UntilFirst(any_trigger_, space_.Literal(trigger));
      builder_.AddText(from, until, Spelling::kPlain, begun);
      for (const GrammarTag& tag : tags_) {
        const std::string_view begin = tag.begin;
        if (begin.substr(0, trigger.size()) != trigger) continue;
        AddTag(tag, begin.substr(trigger.size()), begun, to);
      }
    }
  }

  void AddTag(const GrammarTag& tag, std::string_view rest_of_begin, NodeId from, NodeId to) {
    const NodeId inside = builder_.AddNode();
    builder_.AddBytes(from, rest_of_begin, inside);
    if (!tag.content.has_value()) {
      const ExprId end = space_.Literal(tag.end);
      return builder_.AddText(inside, UntilFirst(end, end), Spelling::kPlain, to);
    }
    const NodeId behind = builder_.AddNode();
    builder_.AddCall(inside, *tag.content, behind);
    builder_.AddBytes(behind, tag.end, to);
  }

  const absl::Span<const GrammarTag> tags_;
  const std::vector<std::string> triggers_;
  GrammarBuilder& builder_;
  ExprSpace& space_;
  ExprId any_trigger_ = 0;
};

}  // namespace

RuleId AddStructuralTags(absl::Span<const GrammarTag> tags, std::vector<std::string> triggers,
                         const TagCounts& counts, GrammarBuilder& builder) {
  if (triggers.empty()) {
    for (const GrammarTag& tag : tags) triggers.push_back(tag.begin);
  }
  std::sort(triggers.begin(), triggers.end());
  triggers.erase(std::unique(triggers.begin(), triggers.end()), triggers.end());
  return TagRule(tags, std::move(triggers), builder).Add(counts);
}

}  // namespace sluice
