// What may follow each character.
#include <algorithm>

#include "services/constraint/regex/expr.h"

namespace sluice {
namespace {

uint32_t LessOne(uint32_t count) {
  return count == 0 || count == ExprSpace::kUnbounded ? count : count - 1;
}

}  // namespace

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
    targets.reserve(open.size());
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
    const auto code = static_cast<unsigned char>(c);
    arcs.push_back(
        {code, code, Intern({Kind::kNumber, key.a, next, 0, 0}, machine.IsAccepting(next), true)});
  }
  Join(arcs);
  return arcs;
}

ExprSpace::ArcList ExprSpace::Derive(ExprId expr) {
  if (exhausted()) return {};
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
  Checkpoint(10 + arcs.size());
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

}  // namespace sluice
