#include "services/constraint/grammar/gbnf.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "services/constraint/json/message.h"

namespace sluice {
namespace {

using Kind = GbnfNode::Kind;

template <class Visit>
void ForEachRuleIn(const GbnfNode& node, const Visit& visit) {
  if (node.kind == Kind::kRule) visit(node.rule);
  for (const GbnfNode& inner : node.inner) ForEachRuleIn(inner, visit);
}

// Takes nodes off a graph while nothing leads on from them: in that order, each behind all that it
// leads to. What lies on or before a cycle stays.
std::vector<uint32_t> PeelLeaves(const std::vector<std::vector<uint32_t>>& targets) {
  std::vector<std::vector<uint32_t>> sources(targets.size());
  std::vector<size_t> left(targets.size());
  std::vector<uint32_t> peeled;
  for (uint32_t i = 0; i < targets.size(); ++i) {
    left[i] = targets[i].size();
    for (const uint32_t target : targets[i]) sources[target].push_back(i);
    if (left[i] == 0) peeled.push_back(i);
  }
  for (size_t next = 0; next < peeled.size(); ++next) {
    for (const uint32_t source : sources[peeled[next]]) {
      if (--left[source] == 0) peeled.push_back(source);
    }
  }
  return peeled;
}

// Which rules hold the empty text.
class EmptyTexts {
 public:
  explicit EmptyTexts(const std::vector<GbnfRule>& rules)
      : empty_(rules.size()), users_(rules.size()) {
    std::vector<uint32_t> todo;
    for (uint32_t i = 0; i < rules.size(); ++i) {
      ForEachRuleIn(rules[i].body, [&](uint32_t used) { users_[used].push_back(i); });
      todo.push_back(i);
    }
    while (!todo.empty()) {
      const uint32_t rule = todo.back();
      todo.pop_back();
      if (empty_[rule] || !Holds(rules[rule].body)) continue;
      empty_[rule] = true;
      todo.insert(todo.end(), users_[rule].begin(), users_[rule].end());
    }
  }

  bool Holds(const GbnfNode& node) const {
    const auto holds = [this](const GbnfNode& inner) { return Holds(inner); };
    switch (node.kind) {
      case Kind::kLiteral:
        return node.text.empty();
      case Kind::kSet:
        return false;
      case Kind::kRule:
        return empty_[node.rule];
      case Kind::kSequence:
        return std::all_of(node.inner.begin(), node.inner.end(), holds);
      case Kind::kChoice:
        return std::any_of(node.inner.begin(), node.inner.end(), holds);
      case Kind::kRepeat:
        return node.min == 0 || Holds(node.inner.front());
    }
    return false;
  }

 private:
  std::vector<bool> empty_;
  std::vector<std::vector<uint32_t>> users_;
};

// The rules that a node may call before its first character.
void AddFirstRules(const GbnfNode& node, const EmptyTexts& empty, std::vector<uint32_t>& rules) {
  if (node.kind == Kind::kRule) rules.push_back(node.rule);
  for (const GbnfNode& inner : node.inner) {
    AddFirstRules(inner, empty, rules);
    if (node.kind == Kind::kSequence && !empty.Holds(inner)) return;
  }
}

absl::Status CheckLeftRecursion(const std::vector<GbnfRule>& rules) {
  const EmptyTexts empty(rules);
  std::vector<std::vector<uint32_t>> first(rules.size());
  for (size_t i = 0; i < rules.size(); ++i) AddFirstRules(rules[i].body, empty, first[i]);
  std::vector<bool> fine(rules.size());
  for (const uint32_t rule : PeelLeaves(first)) fine[rule] = true;
  const auto bad = std::find(fine.begin(), fine.end(), false);
  if (bad == fine.end()) return absl::OkStatus();
  // Going on from one that is not fine to others leads into the cycle.
  auto rule = static_cast<uint32_t>(bad - fine.begin());
  for (size_t i = 0; i < rules.size(); ++i) {
    rule = *std::find_if(first[rule].begin(), first[rule].end(),
                         [&](uint32_t next) { return !fine[next]; });
  }
  return absl::InvalidArgumentError(
      Message("the rule ", rules[rule].name,
              " calls itself before its first character (left recursion); put what is repeated "
              "behind, as in  x ::= y (\"+\" y)*"));
}

class Compiler {
 public:
  Compiler(const GbnfDocument& document, GrammarBuilder& builder)
      : rules_(document.rules), builder_(builder), languages_(rules_.size()), ids_(rules_.size()) {}

  RuleId Compile(uint32_t root) {
    FindLanguages();
    const RuleId start = IdOf(root);
    // Rules are added as they are first called.
    for (size_t next = 0; next < called_.size() && !builder_.exhausted(); ++next) {
      const NodeId end = builder_.AddNode();
      builder_.Accept(end);
      Add(rules_[called_[next]].body, builder_.StartOf(*ids_[called_[next]]), end);
    }
    return start;
  }

 private:
  void FindLanguages() {
    std::vector<std::vector<uint32_t>> used(rules_.size());
    for (size_t i = 0; i < rules_.size(); ++i) {
      ForEachRuleIn(rules_[i].body, [&](uint32_t rule) { used[i].push_back(rule); });
    }
    for (const uint32_t rule : PeelLeaves(used)) {
      if (builder_.exhausted()) return;
      languages_[rule] = LanguageOf(rules_[rule].body);
    }
  }

  RuleId IdOf(uint32_t rule) {
    if (!ids_[rule].has_value()) {
      ids_[rule] = builder_.AddRule(rules_[rule].name);
      called_.push_back(rule);
    }
    return *ids_[rule];
  }

  // Nothing where it calls a rule that has none.
  std::optional<ExprId> LanguageOf(const GbnfNode& node) const {
    ExprSpace& space = builder_.space();
    switch (node.kind) {
      case Kind::kLiteral:
        return space.Literal(node.text);
      case Kind::kSet:
        return space.Set(node.set);
      case Kind::kRule:
        return languages_[node.rule];
      default:
        break;
    }
    std::vector<ExprId> inner;
    for (const GbnfNode& part : node.inner) {
      const std::optional<ExprId> language = LanguageOf(part);
      if (!language.has_value()) return std::nullopt;
      inner.push_back(*language);
    }
    if (node.kind == Kind::kChoice) return space.Or(std::move(inner));
    if (node.kind == Kind::kRepeat) return space.Repeat(inner.front(), node.min, node.max);
    ExprId sequence = space.Empty();
    for (auto part = inner.rbegin(); part != inner.rend(); ++part) {
      sequence = space.Concat(*part, sequence);
    }
    return sequence;
  }

  void Add(const GbnfNode& node, NodeId from, NodeId to) {
    if (builder_.exhausted()) return;
    if (node.kind == Kind::kLiteral && !node.text.empty()) {
      return builder_.AddBytes(from, node.text, to);
    }
    if (const std::optional<ExprId> language = LanguageOf(node)) {
      return builder_.AddText(from, *language, Spelling::kPlain, to);
    }
    switch (node.kind) {
      case Kind::kRule:
        return builder_.AddCall(from, IdOf(node.rule), to);
      case Kind::kChoice:
        for (const GbnfNode& inner : node.inner) Add(inner, from, to);
        return;
      case Kind::kRepeat:
        return AddRepeat(node, from, to);
      default:
        return AddSequence(node, from, to);
    }
  }

  void AddSequence(const GbnfNode& node, NodeId from, NodeId to) {
    for (size_t i = 0; i < node.inner.size(); ++i) {
      const NodeId next = i + 1 == node.inner.size() ? to : builder_.AddNode();
      Add(node.inner[i], from, next);
      from = next;
    }
  }

  void AddRepeat(const GbnfNode& node, NodeId from, NodeId to) {
    const GbnfNode& inner = node.inner.front();
    const auto add_next = [&] {
      const NodeId next = builder_.AddNode();
      Add(inner, from, next);
      from = next;
    };
    for (uint32_t i = 0; i < node.min && !builder_.exhausted(); ++i) add_next();
    if (node.max == ExprSpace::kUnbounded) {
      const NodeId loop = builder_.AddNode();
      builder_.AddEpsilon(from, loop);
      Add(inner, loop, loop);
      from = loop;
    } else {
      for (uint32_t i = node.min; i < node.max && !builder_.exhausted(); ++i) {
        builder_.AddEpsilon(from, to);
        add_next();
      }
    }
    builder_.AddEpsilon(from, to);
  }

  const std::vector<GbnfRule>& rules_;
  GrammarBuilder& builder_;
  std::vector<std::optional<ExprId>> languages_;
  std::vector<std::optional<RuleId>> ids_;
  std::vector<uint32_t> called_;  // in this order
};

}  // namespace

absl::StatusOr<RuleId> AddGbnf(std::string_view text, GrammarBuilder& builder,
                               const GbnfLimits& limits) {
  const absl::StatusOr<GbnfDocument> document = ParseGbnf(text, limits);
  if (!document.ok()) return document.status();
  if (absl::Status status = CheckLeftRecursion(document->rules); !status.ok()) return status;
  return Compiler(*document, builder).Compile(document->root);
}

absl::StatusOr<std::unique_ptr<Grammar>> GbnfGrammar(std::string_view text,
                                                     const GbnfLimits& limits,
                                                     const GrammarLimits& grammar_limits,
                                                     const ExprLimits& expr_limits) {
  GrammarBuilder builder(grammar_limits, expr_limits);
  const auto root = AddGbnf(text, builder, limits);
  if (!root.ok()) return root.status();
  return builder.Build(*root);
}

}  // namespace sluice
