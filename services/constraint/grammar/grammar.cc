#include "services/constraint/grammar/grammar.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

size_t Grammar::memory() const {
  return nodes_.size() * sizeof(Node) + edges_.size() * sizeof(GrammarEdge) + bytes_.size() +
         rules_.size() * sizeof(Rule);
}

GrammarBuilder::GrammarBuilder(const GrammarLimits& limits, const ExprLimits& expr_limits)
    : limits_(limits), space_(std::make_unique<ExprSpace>(expr_limits)) {}

NodeId GrammarBuilder::AddNode() {
  if (nodes_.size() >= limits_.max_nodes) {
    exhausted_ = true;
    return 0;
  }
  nodes_.emplace_back();
  return static_cast<NodeId>(nodes_.size() - 1);
}

RuleId GrammarBuilder::AddRule(std::string name) {
  rules_.push_back({AddNode(), std::move(name)});
  return static_cast<RuleId>(rules_.size() - 1);
}

void GrammarBuilder::Add(NodeId from, GrammarEdge edge) {
  if (num_edges_ >= limits_.max_edges) exhausted_ = true;
  if (exhausted_) return;
  ++num_edges_;
  nodes_[from].edges.push_back(edge);
}

void GrammarBuilder::AddEpsilon(NodeId from, NodeId to) {
  Add(from, {.kind = GrammarEdge::Kind::kEpsilon, .target = to});
}

void GrammarBuilder::AddBytes(NodeId from, std::string_view bytes, NodeId to) {
  if (bytes.empty()) return AddEpsilon(from, to);
  Add(from, {.kind = GrammarEdge::Kind::kBytes,
             .target = to,
             .begin = static_cast<uint32_t>(bytes_.size()),
             .size = static_cast<uint32_t>(bytes.size())});
  bytes_.append(bytes);
}

void GrammarBuilder::AddText(NodeId from, ExprId expr, Spelling spelling, NodeId to) {
  if (!space_->IsLive(expr)) return;
  Add(from, {.kind = GrammarEdge::Kind::kText, .spelling = spelling, .target = to, .expr = expr});
}

void GrammarBuilder::AddCall(NodeId from, RuleId rule, NodeId to) {
  Add(from, {.kind = GrammarEdge::Kind::kCall, .target = to, .rule = rule});
}

std::vector<bool> GrammarBuilder::ProductiveNodes() {
  // Backwards from what accepts. A call is open once both its target and its rule's start are
  // productive, and so is looked at when either becomes so.
  std::vector<uint32_t> first(nodes_.size() + 1);  // into `uses`, by node looked at
  const auto for_each_use = [&](auto&& use) {
    for (NodeId from = 0; from < nodes_.size(); ++from) {
      for (const GrammarEdge& edge : nodes_[from].edges) {
        use(edge.target, from, edge);
        if (edge.kind == GrammarEdge::Kind::kCall) use(rules_[edge.rule].start, from, edge);
      }
    }
  };
  for_each_use([&](NodeId node, NodeId, const GrammarEdge&) { ++first[node + 1]; });
  for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
  std::vector<std::pair<NodeId, const GrammarEdge*>> uses(first.back());
  std::vector<uint32_t> next(first.begin(), first.end() - 1);
  for_each_use([&](NodeId node, NodeId from, const GrammarEdge& edge) {
    uses[next[node]++] = {from, &edge};
  });
  std::vector<NodeId> todo;
  std::vector<bool> productive(nodes_.size());
  const auto mark = [&](NodeId node) {
    if (productive[node]) return;
    productive[node] = true;
    todo.push_back(node);
  };
  for (NodeId node = 0; node < nodes_.size(); ++node)
    if (nodes_[node].accepts) mark(node);
  while (!todo.empty()) {
    const NodeId node = todo.back();
    todo.pop_back();
    for (uint32_t i = first[node]; i < first[node + 1]; ++i) {
      const auto& [from, edge] = uses[i];
      if (productive[edge->target] &&
          (edge->kind != GrammarEdge::Kind::kCall || productive[rules_[edge->rule].start]))
        mark(from);
    }
  }
  return productive;
}

absl::StatusOr<std::unique_ptr<Grammar>> GrammarBuilder::Build(RuleId start) {
  if (exhausted()) return absl::ResourceExhaustedError("the grammar needs too many states");
  const std::vector<bool> productive = ProductiveNodes();
  if (!productive[rules_[start].start])
    return absl::InvalidArgumentError("no text at all would be accepted");
  auto grammar = std::make_unique<Grammar>();
  grammar->nodes_.reserve(nodes_.size());
  for (const BuildNode& from : nodes_) {
    Grammar::Node node;
    node.accepts = from.accepts;
    node.first_edge = static_cast<uint32_t>(grammar->edges_.size());
    for (const GrammarEdge& edge : from.edges) {
      if (!productive[edge.target]) continue;
      if (edge.kind == GrammarEdge::Kind::kCall && !productive[rules_[edge.rule].start]) continue;
      grammar->edges_.push_back(edge);
    }
    node.num_edges = static_cast<uint32_t>(grammar->edges_.size()) - node.first_edge;
    grammar->nodes_.push_back(node);
  }
  grammar->bytes_ = std::move(bytes_);
  grammar->rules_ = std::move(rules_);
  grammar->start_ = start;
  grammar->space_ = std::move(space_);
  return grammar;
}

}  // namespace sluice
