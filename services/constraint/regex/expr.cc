#include "services/constraint/regex/expr.h"

#include <algorithm>

#include "services/constraint/regex/code_points.h"

namespace sluice {
namespace {

uint32_t AddBounded(uint32_t a, uint32_t b) {
  if (a == ExprSpace::kUnbounded || b == ExprSpace::kUnbounded) return ExprSpace::kUnbounded;
  return a > ExprSpace::kUnbounded - 1 - b ? ExprSpace::kUnbounded - 1 : a + b;
}

}  // namespace

ExprSpace::ExprSpace(const ExprLimits& limits) : limits_(limits) {
  Intern({Kind::kNothing, 0, 0, 0, 0}, false, true);
  Intern({Kind::kEmpty, 0, 0, 0, 0}, true, false);
  nodes_[0].life = Life::kDead;
  any_char_ = Set(AllCodePoints());
  any_text_ = Repeat(any_char_, 0, kUnbounded);
}

void ExprSpace::ShrinkTo(size_t size) {
  absl::erase_if(ids_, [size](const auto& entry) { return entry.second >= size; });
  nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(size), nodes_.end());
  arcs_.clear();
  // Lists and machines' states are kept: they are small beside what refers to them.
  memory_ = nodes_.size() * (sizeof(Node) + 2 * sizeof(Key));
  exhausted_ = false;
  depth_ = 0;
}

ExprId ExprSpace::Intern(const Key& key, bool nullable, bool can_be_empty_set) {
  const auto [it, inserted] = ids_.try_emplace(key, static_cast<ExprId>(nodes_.size()));
  if (!inserted) return it->second;
  if (nodes_.size() >= limits_.max_exprs) Exhaust();
  memory_ += sizeof(Node) + 2 * sizeof(Key);
  nodes_.push_back({key, nullable, can_be_empty_set,
                    nullable || !can_be_empty_set ? Life::kLive : Life::kUnknown});
  return it->second;
}

uint32_t ExprSpace::InternList(const std::vector<ExprId>& list) {
  const auto [it, inserted] = list_ids_.try_emplace(list, static_cast<uint32_t>(lists_.size()));
  if (inserted) {
    lists_.push_back(list);
    memory_ += 2 * (list.size() * sizeof(ExprId) + sizeof(std::vector<ExprId>));
    if (memory_ > (size_t{1} << 28)) Exhaust();
  }
  return it->second;
}

uint32_t ExprSpace::InternSet(const CodeSet& set) {
  const auto [it, inserted] = set_ids_.try_emplace(set, static_cast<uint32_t>(sets_.size()));
  if (inserted) {
    sets_.push_back(set);
    memory_ += 2 * (set.size() * sizeof(CodeRange) + sizeof(CodeSet));
  }
  return it->second;
}

ExprId ExprSpace::Set(const CodeSet& set) {
  if (set.empty()) return Nothing();
  return Intern({Kind::kSet, InternSet(set), 0, 0, 0}, false, false);
}

ExprId ExprSpace::Literal(std::string_view text) {
  std::vector<uint32_t> codes;
  for (size_t at = 0; at < text.size();) codes.push_back(NextCodePoint(text, at));
  ExprId expr = Empty();
  for (size_t i = codes.size(); i-- > 0;) expr = Concat(Set({{codes[i], codes[i]}}), expr);
  return expr;
}

ExprId ExprSpace::Concat(ExprId a, ExprId b) {
  if (a == Nothing() || b == Nothing()) return Nothing();
  if (a == Empty()) return b;
  if (b == Empty()) return a;
  if (exhausted()) return Nothing();
  const Key left = nodes_[a].key;
  if (left.kind == Kind::kConcat) {
    if (++depth_ > kMaxRecursion) Exhaust();
    const ExprId joined = exhausted() ? Nothing() : Concat(left.a, Concat(left.b, b));
    --depth_;
    return joined;
  }
  // x{a,b} x{c,d} is x{a+c,b+d}.
  const auto as_repeat = [this](ExprId expr) {
    const Key& key = nodes_[expr].key;
    return key.kind == Kind::kRepeat ? key : Key{Kind::kRepeat, expr, 0, 1, 1};
  };
  const Key right = nodes_[b].key;
  const ExprId head = right.kind == Kind::kConcat ? right.a : b;
  const Key first = as_repeat(a), second = as_repeat(head);
  if (first.a == second.a &&
      (left.kind == Kind::kRepeat || nodes_[head].key.kind == Kind::kRepeat)) {
    const ExprId both =
        Repeat(first.a, AddBounded(first.min, second.min), AddBounded(first.max, second.max));
    return right.kind == Kind::kConcat ? Concat(both, right.b) : both;
  }
  return Intern({Kind::kConcat, a, b, 0, 0}, IsNullable(a) && IsNullable(b),
                nodes_[a].can_be_empty_set || nodes_[b].can_be_empty_set);
}

ExprId ExprSpace::Repeat(ExprId expr, uint32_t min, uint32_t max) {
  if (max == 0 || expr == Empty()) return Empty();
  if (expr == Nothing()) return min == 0 ? Empty() : Nothing();
  if (min > max) return Nothing();
  if (min == 1 && max == 1) return expr;
  if (IsNullable(expr)) min = 0;
  const Key& key = nodes_[expr].key;
  if (key.kind == Kind::kRepeat && key.min == 0 && key.max == kUnbounded) return expr;
  if (key.kind == Kind::kRepeat && key.min <= 1 && key.max == kUnbounded && min <= 1)
    return Repeat(key.a, std::min(min, key.min), kUnbounded);
  return Intern({Kind::kRepeat, expr, 0, min, max}, min == 0,
                min > 0 && nodes_[expr].can_be_empty_set);
}

ExprId ExprSpace::AnyTextOfLength(uint32_t min, uint32_t max) {
  return Repeat(any_char_, min, max);
}

ExprId ExprSpace::Number(const NumberRules& rules) {
  const auto [it, inserted] = numbers_.try_emplace(rules.Key(), Nothing());
  if (!inserted) return it->second;
  machines_.push_back(std::make_unique<NumberMachine>(rules));
  const uint32_t machine = static_cast<uint32_t>(machines_.size() - 1);
  const uint32_t start = machines_.back()->start();
  return it->second = Intern({Kind::kNumber, machine, start, 0, 0},
                             machines_.back()->IsAccepting(start), true);
}

bool ExprSpace::IsAnyText(ExprId expr, uint32_t* min, uint32_t* max) const {
  if (expr == Empty()) {
    *min = *max = 0;
    return true;
  }
  if (expr == any_char_) {
    *min = *max = 1;
    return true;
  }
  const Key& key = nodes_[expr].key;
  if (key.kind != Kind::kRepeat || key.a != any_char_) return false;
  *min = key.min;
  *max = key.max;
  return true;
}

ExprId ExprSpace::WithoutFarEnd(ExprId expr, uint32_t length) {
  uint32_t min = 0, max = 0;
  if (IsAnyText(expr, &min, &max))
    return max > length && max != kUnbounded
               ? AnyTextOfLength(std::min(min, length + 1), kUnbounded)
               : expr;
  if (nodes_[expr].key.kind != Kind::kAnd) return expr;
  std::vector<ExprId> parts = lists_[nodes_[expr].key.a];
  bool changed = false;
  for (ExprId& part : parts) {
    if (!IsAnyText(part, &min, &max) || max <= length || max == kUnbounded) continue;
    part = AnyTextOfLength(std::min(min, length + 1), kUnbounded);
    changed = true;
  }
  if (!changed) return expr;
  const ExprId near = And(std::move(parts));
  // Without the limit, what was live is.
  if (nodes_[near].life == Life::kUnknown) nodes_[near].life = Life::kLive;
  return near;
}

}  // namespace sluice
