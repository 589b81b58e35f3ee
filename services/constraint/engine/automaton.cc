#include "services/constraint/engine/automaton.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"

namespace sluice {

using EdgeKind = GrammarEdge::Kind;

size_t Automaton::SetHash::operator()(
    const std::pair<absl::Span<const Position>, bool>& set) const {
  return absl::HashOf(set.first, set.second);
}

size_t Automaton::SetHash::operator()(State state) const {
  return (*this)(std::make_pair(automaton->Positions(state), automaton->IsAccepting(state)));
}

bool Automaton::SetEqual::operator()(State a,
                                     const std::pair<absl::Span<const Position>, bool>& b) const {
  return automaton->IsAccepting(a) == b.second && automaton->Positions(a) == b.first;
}

Automaton::Automaton(const Grammar& grammar, const AutomatonLimits& limits)
    : grammar_(grammar),
      limits_(limits),
      lexer_(grammar.space()),
      ids_(16, SetHash{this}, SetEqual{this}) {
  stacks_.emplace_back();
  info_.emplace_back();  // kDead
  ids_.insert(kDead);
  Visit(grammar_.rule(grammar_.start()).start, kBottom);
  start_ = InternScratch();
}

Automaton::Stack Automaton::Push(Stack below, NodeId return_to) {
  if (grammar_.IsTail(return_to)) return below;
  const uint64_t key = uint64_t{below} << 32 | return_to;
  const auto [it, inserted] = stack_ids_.try_emplace(key, static_cast<Stack>(stacks_.size()));
  if (inserted) stacks_.push_back({below, return_to, stacks_[below].depth + 1});
  return it->second;
}

void Automaton::VisitEdge(uint32_t index, Stack stack) {
  const GrammarEdge& edge = grammar_.edge(index);
  switch (edge.kind) {
    case EdgeKind::kEpsilon:
      todo_.emplace_back(edge.target, stack);
      break;
    case EdgeKind::kBytes:
      scratch_.push_back({index, 0, stack});
      break;
    case EdgeKind::kText: {
      const ByteLexer::State start = lexer_.Start(edge.expr, edge.spelling);
      if (start == ByteLexer::kDead) break;
      if (lexer_.IsAccepting(start)) todo_.emplace_back(edge.target, stack);
      if (lexer_.HasNext(start)) scratch_.push_back({index, start, stack});
      break;
    }
    case EdgeKind::kCall:
      if (stacks_[stack].depth >= limits_.max_stack_depth) break;
      todo_.emplace_back(grammar_.rule(edge.rule).start, Push(stack, edge.target));
      break;
  }
}

void Automaton::Visit(NodeId node, Stack stack) {
  constexpr size_t kFew = 12;
  todo_.clear();
  visited_few_.clear();
  visited_.clear();
  todo_.emplace_back(node, stack);
  while (!todo_.empty()) {
    const auto [at, below] = todo_.back();
    todo_.pop_back();
    const uint64_t key = uint64_t{at} << 32 | below;
    if (visited_few_.size() < kFew) {
      if (std::find(visited_few_.begin(), visited_few_.end(), key) != visited_few_.end()) continue;
      visited_few_.push_back(key);
    } else {
      if (visited_.empty()) visited_.insert(visited_few_.begin(), visited_few_.end());
      if (!visited_.insert(key).second) continue;
    }
    if (scratch_.size() > limits_.max_positions) {
      exhausted_ = true;
      return;
    }
    const Grammar::Node& info = grammar_.node(at);
    if (info.accepts) {
      if (below == kBottom) {
        scratch_accepting_ = true;
      } else {
        todo_.emplace_back(stacks_[below].return_to, stacks_[below].below);
      }
    }
    for (uint32_t i = 0; i < info.num_edges; ++i) VisitEdge(info.first_edge + i, below);
  }
}

Automaton::State Automaton::InternScratch() {
  std::sort(scratch_.begin(), scratch_.end());
  scratch_.erase(std::unique(scratch_.begin(), scratch_.end()), scratch_.end());
  const bool accepting = std::exchange(scratch_accepting_, false);
  const auto key = std::make_pair(absl::MakeConstSpan(scratch_), accepting);
  if (const auto it = ids_.find(key); it != ids_.end()) {
    scratch_.clear();
    return *it;
  }
  Info info;
  info.first = static_cast<uint32_t>(positions_.size());
  info.count = static_cast<uint32_t>(scratch_.size());
  info.accepting = accepting;
  for (const Position& position : scratch_) {
    const GrammarEdge& edge = grammar_.edge(position.edge);
    if (edge.kind == EdgeKind::kBytes) {
      info.live.set(static_cast<unsigned char>(grammar_.bytes(edge)[position.place]));
    } else {
      info.live |= lexer_.LiveBytes(position.place);
      // One position's loop is enough; where several have one, the widest is taken.
      const CharClasses loop = lexer_.SelfLoop(position.place);
      if ((loop & info.self_loop) == info.self_loop) info.self_loop = loop;
    }
  }
  positions_.insert(positions_.end(), scratch_.begin(), scratch_.end());
  scratch_.clear();
  const auto state = static_cast<State>(info_.size());
  info_.push_back(std::move(info));
  ids_.insert(state);
  return state;
}

Automaton::State Automaton::StateOf(std::vector<Position> positions, bool accepting) {
  scratch_ = std::move(positions);
  scratch_accepting_ = accepting;
  return InternScratch();
}

Automaton::State Automaton::After(const Position& position) {
  Visit(grammar_.edge(position.edge).target, position.stack);
  return InternScratch();
}

void Automaton::MakeTable(State state) {
  info_[state].next = std::make_unique<Table>();
  info_[state].next->fill(kUnknown);
  ++num_tables_;
}

Automaton::State Automaton::MakeStep(State state, uint8_t byte) {
  const uint32_t first = info_[state].first, count = info_[state].count;
  const size_t work = 1 + count;
  if (exhausted() || work_left_ < work + (grammar_.space().work() - derived_)) {
    exhausted_ = true;
    return kDead;
  }
  work_left_ -= work;
  grammar_.space().Checkpoint(work);
  for (uint32_t i = first; i < first + count; ++i) {
    const Position position = positions_[i];
    const GrammarEdge& edge = grammar_.edge(position.edge);
    if (edge.kind == EdgeKind::kBytes) {
      const std::string_view bytes = grammar_.bytes(edge);
      if (static_cast<unsigned char>(bytes[position.place]) != byte) continue;
      if (position.place + 1 < bytes.size()) {
        scratch_.push_back({position.edge, position.place + 1, position.stack});
      } else {
        Visit(edge.target, position.stack);
      }
      continue;
    }
    const ByteLexer::State next = lexer_.Next(position.place)[byte];
    if (next == ByteLexer::kDead) continue;
    if (lexer_.HasNext(next)) scratch_.push_back({position.edge, next, position.stack});
    if (lexer_.IsAccepting(next)) Visit(edge.target, position.stack);
  }
  const State next = InternScratch();
  (*info_[state].next)[byte] = next;
  return next;
}

size_t Automaton::memory() const {
  return stacks_.capacity() * (sizeof(StackCell) + 24) + positions_.capacity() * sizeof(Position) +
         info_.capacity() * (sizeof(Info) + 16) + num_tables_ * sizeof(Table) + lexer_.memory() +
         grammar_.space().memory();
}

}  // namespace sluice
