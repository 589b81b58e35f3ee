// Which expressions hold any text, and whether one holds a given one.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "services/constraint/regex/code_points.h"
#include "services/constraint/regex/expr.h"

namespace sluice {

bool ExprSpace::IsLive(ExprId expr) {
  if (nodes_[expr].life != Life::kUnknown) return nodes_[expr].life == Life::kLive;
  if (exhausted()) return false;
  return SearchLife(expr);
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
    if (visited.size() > limits_.max_search || exhausted()) {
      Exhaust();
      return false;
    }
    path.push_back({target, Derive(target)});
  }
  if (!exhausted())
    for (const ExprId expr : visited) nodes_[expr].life = Life::kDead;
  return false;
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

}  // namespace sluice
