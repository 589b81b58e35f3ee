// A grammar as a deterministic automaton over bytes, whose states are made where they are walked.
//
// A state is a set of positions: each a place on an edge of the grammar with the stack of returns
// below it. Stacks are lists that share their tails, and equal sets are one state, so that two ways
// to the same place meet. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "services/constraint/engine/byte_class.h"
#include "services/constraint/engine/byte_lexer.h"
#include "services/constraint/grammar/grammar.h"

namespace sluice {

struct AutomatonLimits {
  // Deeper calls are not followed: what would need them is not allowed.
  uint32_t max_stack_depth = 1000;
  // Positions in one state.
  size_t max_positions = 20'000;
};

class Automaton {
 public:
  using State = uint32_t;
  using Stack = uint32_t;
  static constexpr State kDead = 0;
  static constexpr Stack kBottom = 0;

  struct Position {
    uint32_t edge = 0;   // of the grammar: bytes or text
    uint32_t place = 0;  // of bytes: how many were read; of text: the lexer's state
    Stack stack = 0;
    // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the default for a literal 0
    auto operator<=>(const Position&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Position& p) {
      return H::combine(std::move(h), p.edge, p.place, p.stack);
    }
  };

  // `grammar` is borrowed.
  explicit Automaton(const Grammar& grammar, const AutomatonLimits& limits = {});
  Automaton(const Automaton&) = delete;
  Automaton& operator=(const Automaton&) = delete;

  State start() const { return start_; }
  // kDead where the byte can't come.
  State Step(State state, uint8_t byte) {
    if (!info_[state].live.test(byte)) return kDead;
    if (info_[state].next == nullptr) MakeTable(state);
    const State next = (*info_[state].next)[byte];
    return next == kUnknown ? MakeStep(state, byte) : next;
  }
  const ByteSet& LiveBytes(State state) const { return info_[state].live; }
  // Whether the text may end here.
  bool IsAccepting(State state) const { return info_[state].accepting; }
  // The classes of whole characters after which `state` is at least what it was.
  CharClasses SelfLoop(State state) const { return info_[state].self_loop; }
  absl::Span<const Position> Positions(State state) const {
    return absl::MakeSpan(positions_).subspan(info_[state].first, info_[state].count);
  }
  // The state of some of a state's positions.
  State StateOf(std::vector<Position> positions, bool accepting);
  // The state behind the end of the edge of `position`.
  State After(const Position& position);
  const Grammar& grammar() const { return grammar_; }
  ByteLexer& lexer() { return lexer_; }

  // Allows so much work until the next call; what a step takes is about its positions.
  void GrantWork(size_t work) {
    work_left_ = work;
    derived_ = grammar_.space().work();
  }
  // Set for good once a limit was passed or the work done; the states reached since are of no use.
  bool exhausted() const { return exhausted_ || grammar_.space().exhausted(); }
  size_t size() const { return info_.size(); }
  size_t memory() const;

 private:
  static constexpr State kUnknown = UINT32_MAX;
  using Table = std::array<State, 256>;
  struct StackCell {
    Stack below = 0;
    NodeId return_to = 0;
    uint32_t depth = 0;
  };
  struct Info {
    uint32_t first = 0, count = 0;  // into positions_
    bool accepting = false;
    CharClasses self_loop = 0;
    ByteSet live;
    std::unique_ptr<Table> next;
  };
  // A state's identity, by its positions.
  struct SetHash {
    using is_transparent = void;
    const Automaton* automaton;
    size_t operator()(State state) const;
    size_t operator()(const std::pair<absl::Span<const Position>, bool>& set) const;
  };
  struct SetEqual {
    using is_transparent = void;
    const Automaton* automaton;
    bool operator()(State a, State b) const { return a == b; }
    bool operator()(State a, const std::pair<absl::Span<const Position>, bool>& b) const;
    bool operator()(const std::pair<absl::Span<const Position>, bool>& b, State a) const {
      return (*this)(a, b);
    }
  };

  void MakeTable(State state);
  State MakeStep(State state, uint8_t byte);
  Stack Push(Stack below, NodeId return_to);
  // Adds the positions reached from a node without reading a byte.
  void Visit(NodeId node, Stack stack);
  void VisitEdge(uint32_t edge, Stack stack);
  State InternScratch();

  const Grammar& grammar_;
  const AutomatonLimits limits_;
  ByteLexer lexer_;
  std::vector<StackCell> stacks_;
  absl::flat_hash_map<uint64_t, Stack> stack_ids_;
  std::vector<Position> positions_;
  std::vector<Info> info_;
  absl::flat_hash_set<State, SetHash, SetEqual> ids_;
  State start_ = kDead;
  size_t num_tables_ = 0;
  size_t work_left_ = SIZE_MAX;
  size_t derived_ = 0;  // the space's work when work_left_ was set
  bool exhausted_ = false;

  // Scratch of one step.
  std::vector<Position> scratch_;
  bool scratch_accepting_ = false;
  std::vector<std::pair<NodeId, Stack>> todo_;
  absl::flat_hash_set<uint64_t> visited_;
  std::vector<uint64_t> visited_few_;
};

}  // namespace sluice
