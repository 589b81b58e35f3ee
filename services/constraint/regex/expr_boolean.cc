// Unions, intersections and complements, rewritten so that equal languages meet in one expression more
// often.
#include <algorithm>
#include <map>

#include "services/constraint/regex/expr.h"

namespace sluice {

void ExprSpace::Flatten(Kind kind, std::vector<ExprId>& list) const {
  const size_t given = list.size();
  for (size_t i = 0; i < given; ++i) {
    const Key& key = nodes_[list[i]].key;
    if (key.kind != kind) continue;
    list.insert(list.end(), lists_[key.a].begin(), lists_[key.a].end());
    list[i] = kind == Kind::kOr ? Nothing() : any_text_;
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  const ExprId neutral = kind == Kind::kOr ? Nothing() : any_text_;
  list.erase(std::remove(list.begin(), list.end(), neutral), list.end());
}

ExprId ExprSpace::FromList(Kind kind, std::vector<ExprId> list) {
  if (list.empty()) return kind == Kind::kOr ? Nothing() : any_text_;
  if (list.size() == 1) return list[0];
  const bool is_or = kind == Kind::kOr;
  const auto nullable = [this](ExprId e) { return IsNullable(e); };
  const auto doubtful = [this](ExprId e) { return nodes_[e].can_be_empty_set; };
  return Intern({kind, InternList(list), 0, 0, 0},
                is_or ? std::any_of(list.begin(), list.end(), nullable)
                      : std::all_of(list.begin(), list.end(), nullable),
                !is_or || std::all_of(list.begin(), list.end(), doubtful));
}

ExprId ExprSpace::Or(std::vector<ExprId> exprs) {
  if (exprs.size() == 1) return exprs[0];
  if (exhausted()) return Nothing();
  Flatten(Kind::kOr, exprs);
  if (std::binary_search(exprs.begin(), exprs.end(), any_text_)) return any_text_;
  // Single characters are united into one set, and so are those before the same rest.
  std::map<ExprId, CodeSet> by_rest;
  size_t num_sets = 0;
  std::vector<ExprId> kept;
  for (const ExprId expr : exprs) {
    const Key& key = nodes_[expr].key;
    const bool is_set = key.kind == Kind::kSet;
    const bool is_headed = key.kind == Kind::kConcat && nodes_[key.a].key.kind == Kind::kSet;
    if (!is_set && !is_headed) {
      kept.push_back(expr);
      continue;
    }
    ++num_sets;
    CodeSet& set = by_rest[is_set ? Empty() : key.b];
    const CodeSet& more = sets_[is_set ? key.a : nodes_[key.a].key.a];
    set = set.empty() ? more : Union(set, more);
  }
  if (num_sets == by_rest.size()) return FromList(Kind::kOr, std::move(exprs));
  for (const auto& [rest, set] : by_rest) kept.push_back(Concat(Set(set), rest));
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  return FromList(Kind::kOr, std::move(kept));
}

ExprId ExprSpace::And(std::vector<ExprId> exprs) {
  if (exhausted()) return Nothing();
  Flatten(Kind::kAnd, exprs);
  uint32_t min = 0, max = kUnbounded;
  std::vector<ExprId> kept;
  for (const ExprId expr : exprs) {
    if (expr == Nothing()) return Nothing();
    uint32_t low = 0, high = 0;
    if (IsAnyText(expr, &low, &high)) {
      min = std::max(min, low);
      max = std::min(max, high);
    } else {
      kept.push_back(expr);
    }
  }
  if (min > max) return Nothing();
  if (max == 0)
    return std::all_of(kept.begin(), kept.end(), [this](ExprId e) { return IsNullable(e); })
               ? Empty()
               : Nothing();
  const ExprId length = AnyTextOfLength(min, max);
  if (length != any_text_) kept.push_back(length);
  for (const ExprId expr : kept)
    if (nodes_[expr].key.kind == Kind::kNot &&
        std::find(kept.begin(), kept.end(), nodes_[expr].key.a) != kept.end())
      return Nothing();
  std::sort(kept.begin(), kept.end());
  return FromList(Kind::kAnd, std::move(kept));
}

ExprId ExprSpace::Not(ExprId expr) {
  if (expr == Nothing()) return any_text_;
  if (expr == any_text_) return Nothing();
  const Key& key = nodes_[expr].key;
  if (key.kind == Kind::kNot) return key.a;
  uint32_t min = 0, max = 0;
  if (IsAnyText(expr, &min, &max) && (min == 0 || max == kUnbounded))
    return min == 0 ? AnyTextOfLength(max + 1, kUnbounded) : AnyTextOfLength(0, min - 1);
  return Intern({Kind::kNot, expr, 0, 0, 0}, !IsNullable(expr), true);
}

}  // namespace sluice
