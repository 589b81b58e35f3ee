// A context-free grammar as a recursive transition network: rules are automata whose edges are
// bytes, languages of texts and calls of other rules. Built once, then immutable and thread-safe
// (except its ExprSpace, which matchers extend).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/constraint/regex/expr.h"
#include "services/constraint/regex/spelling.h"

namespace sluice {

using NodeId = uint32_t;
using RuleId = uint32_t;

struct GrammarEdge {
  enum class Kind : uint8_t { kEpsilon, kBytes, kText, kCall };
  Kind kind = Kind::kEpsilon;
  Spelling spelling = Spelling::kPlain;  // kText
  NodeId target = 0;
  uint32_t begin = 0, size = 0;  // kBytes: where in Grammar::bytes
  ExprId expr = 0;               // kText
  RuleId rule = 0;               // kCall
};

struct GrammarLimits {
  size_t max_nodes = 400'000;
  size_t max_edges = 1'000'000;
};

class Grammar {
 public:
  struct Node {
    uint32_t first_edge = 0, num_edges = 0;
    bool accepts = false;
  };
  struct Rule {
    NodeId start = 0;
    std::string name;  // for messages
  };

  const Node& node(NodeId id) const { return nodes_[id]; }
  const GrammarEdge& edge(uint32_t index) const { return edges_[index]; }
  std::string_view bytes(const GrammarEdge& edge) const {
    return std::string_view(bytes_).substr(edge.begin, edge.size);
  }
  const Rule& rule(RuleId id) const { return rules_[id]; }
  RuleId start() const { return start_; }
  // Whether a call that returns to `node` is the last thing its rule does.
  bool IsTail(NodeId node) const { return nodes_[node].accepts && nodes_[node].num_edges == 0; }
  ExprSpace& space() const { return *space_; }
  size_t num_nodes() const { return nodes_.size(); }
  size_t memory() const;

 private:
  friend class GrammarBuilder;
  std::vector<Node> nodes_;
  std::vector<GrammarEdge> edges_;
  std::string bytes_;
  std::vector<Rule> rules_;
  RuleId start_ = 0;
  std::unique_ptr<ExprSpace> space_;
};

// Builds one grammar. Not thread-safe.
class GrammarBuilder {
 public:
  explicit GrammarBuilder(const GrammarLimits& limits = {}, const ExprLimits& expr_limits = {});

  ExprSpace& space() { return *space_; }
  NodeId AddNode();
  // A rule begins at a node of its own.
  RuleId AddRule(std::string name);
  NodeId StartOf(RuleId rule) const { return rules_[rule].start; }
  void Accept(NodeId node) { nodes_[node].accepts = true; }

  void AddEpsilon(NodeId from, NodeId to);
  void AddBytes(NodeId from, std::string_view bytes, NodeId to);
  void AddText(NodeId from, ExprId expr, Spelling spelling, NodeId to);
  void AddCall(NodeId from, RuleId rule, NodeId to);

  // Whether a limit was passed; what is added after that is dropped.
  bool exhausted() const { return exhausted_ || space_->exhausted(); }

  // Leaves out what leads to no text. INVALID_ARGUMENT where the start rule holds no text;
  // RESOURCE_EXHAUSTED where a limit was passed. The builder is of no use afterwards.
  // REQUIRES: no rule calls itself before its first byte.
  absl::StatusOr<std::unique_ptr<Grammar>> Build(RuleId start);

 private:
  struct BuildNode {
    std::vector<GrammarEdge> edges;
    bool accepts = false;
  };
  void Add(NodeId from, GrammarEdge edge);
  std::vector<bool> ProductiveNodes();

  const GrammarLimits limits_;
  std::unique_ptr<ExprSpace> space_;
  std::vector<BuildNode> nodes_;
  std::string bytes_;
  std::vector<Grammar::Rule> rules_;
  size_t num_edges_ = 0;
  bool exhausted_ = false;
};

}  // namespace sluice
