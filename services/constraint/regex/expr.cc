#include "services/constraint/regex/expr.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_set.h"

namespace sluice {
namespace {

// Recursion deeper than this passes for exhaustion: expressions are nested no deeper than patterns
// may be (pattern_parser.h), but derivatives nest them anew.
constexpr int kMaxRecursion = 2000;

uint32_t AddBounded(uint32_t a, uint32_t b) {
  if (a == ExprSpace::kUnbounded || b == ExprSpace::kUnbounded) return ExprSpace::kUnbounded;
  return a > ExprSpace::kUnbounded - 1 - b ? ExprSpace::kUnbounded - 1 : a + b;
}

uint32_t LessOne(uint32_t count) {
  return count == 0 || count == ExprSpace::kUnbounded ? count : count - 1;
}

// The next character of UTF-8 text.
uint32_t NextCodePoint(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const uint32_t lead = byte(at++);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  uint32_t code = lead & (0x3F >> more);
  for (int i = 0; i < more && at < text.size(); ++i) code = code << 6 | (byte(at++) & 0x3F);
  return code;
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
    memory_ += 2 * (list.size() * sizeof(ExprId) + sizeof(list));
    if (memory_ > (size_t{1} << 28)) Exhaust();
  }
  return it->second;
}

uint32_t ExprSpace::InternSet(const CodeSet& set) {
  const auto [it, inserted] = set_ids_.try_emplace(set, static_cast<uint32_t>(sets_.size()));
  if (inserted) {
    sets_.push_back(set);
    memory_ += 2 * (set.size() * sizeof(CodeRange) + sizeof(set));
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
  if (exhausted_) return Nothing();
  const Key left = nodes_[a].key;
  if (left.kind == Kind::kConcat) {
    if (++depth_ > kMaxRecursion) Exhaust();
    const ExprId joined = exhausted_ ? Nothing() : Concat(left.a, Concat(left.b, b));
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
  if (exhausted_) return Nothing();
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
  if (exhausted_) return Nothing();
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

void ExprSpace::Join(ArcList& arcs) {
  size_t kept = 0;
  for (const ExprArc& arc : arcs) {
    if (kept > 0 && arcs[kept - 1].target == arc.target && arcs[kept - 1].last + 1 == arc.first) {
      arcs[kept - 1].last = arc.last;
    } else {
      arcs[kept++] = arc;
    }
  }
  arcs.resize(kept);
}

ExprSpace::ArcList ExprSpace::Merge(Kind kind, const std::vector<ArcList>& lists) {
  // A sweep over the ends of all arcs; between two ends the set of arcs is the same.
  struct End {
    uint32_t at;
    bool opens;
    uint32_t list;
    ExprId target;
  };
  std::vector<End> ends;
  for (uint32_t i = 0; i < lists.size(); ++i) {
    for (const ExprArc& arc : lists[i]) {
      ends.push_back({arc.first, true, i, arc.target});
      ends.push_back({arc.last + 1, false, i, arc.target});
    }
  }
  std::sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.at < b.at; });
  ArcList merged;
  std::vector<std::pair<uint32_t, ExprId>> open;  // by list
  for (size_t i = 0; i < ends.size();) {
    const uint32_t at = ends[i].at;
    for (; i < ends.size() && ends[i].at == at; ++i) {
      const std::pair<uint32_t, ExprId> entry(ends[i].list, ends[i].target);
      if (ends[i].opens) {
        open.push_back(entry);
      } else {
        open.erase(std::find(open.begin(), open.end(), entry));
      }
    }
    if (i == ends.size()) break;
    if (open.empty() || (kind == Kind::kAnd && open.size() < lists.size())) continue;
    std::vector<ExprId> targets;
    for (const auto& [list, target] : open) targets.push_back(target);
    const ExprId target = kind == Kind::kOr ? Or(std::move(targets)) : And(std::move(targets));
    if (target != Nothing()) merged.push_back({at, ends[i].at - 1, target});
  }
  Join(merged);
  return merged;
}

ExprSpace::ArcList ExprSpace::DeriveConcat(const Key& key) {
  ArcList head = Derive(key.a);
  for (ExprArc& arc : head) arc.target = Concat(arc.target, key.b);
  if (!IsNullable(key.a)) return head;
  return Merge(Kind::kOr, {std::move(head), Derive(key.b)});
}

ExprSpace::ArcList ExprSpace::DeriveRepeat(const Key& key) {
  ArcList arcs = Derive(key.a);
  const ExprId rest = Repeat(key.a, LessOne(key.min), LessOne(key.max));
  for (ExprArc& arc : arcs) arc.target = Concat(arc.target, rest);
  return arcs;
}

ExprSpace::ArcList ExprSpace::DeriveNot(ExprId inner) {
  const ArcList arcs = Derive(inner);
  ArcList all;
  uint32_t next = 0;
  const auto add = [&](uint32_t first, uint32_t last, ExprId target) {
    if (first > last || target == Nothing()) return;
    for (const CodeRange& range : MakeCodeSet({{first, last}}))
      all.push_back({range.first, range.last, target});
  };
  for (const ExprArc& arc : arcs) {
    if (arc.first > next) add(next, arc.first - 1, any_text_);
    add(arc.first, arc.last, Not(arc.target));
    next = arc.last + 1;
  }
  add(next, kMaxCodePoint, any_text_);
  Join(all);
  return all;
}

ExprSpace::ArcList ExprSpace::DeriveNumber(const Key& key) {
  NumberMachine& machine = *machines_[key.a];
  ArcList arcs;
  for (const char c : std::string_view("+-.0123456789Ee")) {
    const uint32_t next = machine.Step(key.b, c);
    if (next == NumberMachine::kDead) continue;
    const auto code = static_cast<uint32_t>(c);
    arcs.push_back(
        {code, code, Intern({Kind::kNumber, key.a, next, 0, 0}, machine.IsAccepting(next), true)});
  }
  Join(arcs);
  return arcs;
}

ExprSpace::ArcList ExprSpace::Derive(ExprId expr) {
  if (exhausted_) return {};
  if (const auto it = arcs_.find(expr); it != arcs_.end()) return *it->second;
  if (++depth_ > kMaxRecursion) Exhaust();
  const Key key = nodes_[expr].key;
  ArcList arcs;
  switch (key.kind) {
    case Kind::kNothing:
    case Kind::kEmpty:
      break;
    case Kind::kSet:
      for (const CodeRange& range : sets_[key.a])
        arcs.push_back({range.first, range.last, Empty()});
      break;
    case Kind::kConcat:
      arcs = DeriveConcat(key);
      break;
    case Kind::kRepeat:
      arcs = DeriveRepeat(key);
      break;
    case Kind::kNot:
      arcs = DeriveNot(key.a);
      break;
    case Kind::kNumber:
      arcs = DeriveNumber(key);
      break;
    case Kind::kOr:
    case Kind::kAnd: {
      const std::vector<ExprId> parts = lists_[key.a];
      std::vector<ArcList> lists;
      lists.reserve(parts.size());
      for (const ExprId part : parts) lists.push_back(Derive(part));
      arcs = Merge(key.kind, lists);
      break;
    }
  }
  --depth_;
  work_ += 10 + arcs.size();
  return arcs;
}

const std::vector<ExprArc>& ExprSpace::Arcs(ExprId expr) {
  if (const auto it = arcs_.find(expr); it != arcs_.end()) return *it->second;
  auto arcs = std::make_unique<ArcList>(Derive(expr));
  memory_ += sizeof(ArcList) + arcs->size() * sizeof(ExprArc) + 32;
  // Kept before asking which targets live, which may come back to this expression.
  ArcList& kept = *arcs_.emplace(expr, std::move(arcs)).first->second;
  std::vector<ExprArc> live;
  const ArcList all = kept;
  for (const ExprArc& arc : all)
    if (IsLive(arc.target)) live.push_back(arc);
  ArcList& result = *arcs_.find(expr)->second;
  result = std::move(live);
  return result;
}

bool ExprSpace::IsLive(ExprId expr) {
  if (nodes_[expr].life != Life::kUnknown) return nodes_[expr].life == Life::kLive;
  if (exhausted_) return false;
  return SearchLife(expr);
}

bool ExprSpace::Matches(ExprId expr, std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const uint32_t code = NextCodePoint(text, at);
    const ArcList& arcs = Arcs(expr);
    const auto arc = std::lower_bound(arcs.begin(), arcs.end(), code,
                                      [](const ExprArc& a, uint32_t c) { return a.last < c; });
    if (arc == arcs.end() || arc->first > code) return false;
    expr = arc->target;
  }
  return IsNullable(expr);
}

bool ExprSpace::SearchLife(ExprId root) {
  // Depth first until a state that is known to live; then all on the way to it live. Where none is
  // found, all that were visited are dead.
  struct Frame {
    ExprId expr;
    ArcList arcs;
    size_t next = 0;
  };
  absl::flat_hash_set<ExprId> visited{root};
  std::vector<Frame> path;
  path.push_back({root, Derive(root)});
  while (!path.empty()) {
    Frame& frame = path.back();
    if (frame.next == frame.arcs.size()) {
      path.pop_back();
      continue;
    }
    const ExprId target = frame.arcs[frame.next++].target;
    const Life life = nodes_[target].life;
    if (life == Life::kLive) {
      for (const Frame& on_path : path) nodes_[on_path.expr].life = Life::kLive;
      return true;
    }
    if (life == Life::kDead || !visited.insert(target).second) continue;
    if (visited.size() > limits_.max_search || exhausted_) {
      Exhaust();
      return false;
    }
    path.push_back({target, Derive(target)});
  }
  if (!exhausted_)
    for (const ExprId expr : visited) nodes_[expr].life = Life::kDead;
  return false;
}

}  // namespace sluice
