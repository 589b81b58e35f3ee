#include "services/constraint/engine/mask_maker.h"

#include <utility>

namespace sluice {

MaskMaker::MaskMaker(Automaton& automaton, const TokenVocabulary& vocabulary, size_t max_bytes)
    : automaton_(automaton),
      vocabulary_(vocabulary),
      max_bytes_(max_bytes),
      mask_bytes_(vocabulary.mask_words() * sizeof(uint64_t) + 64) {}

const TokenMask& MaskMaker::Mask(Automaton::State given) {
  const Automaton::State state = WithoutFarEnds(given);
  if (const auto it = masks_.find(state); it != masks_.end()) return *it->second;
  if (memory() + mask_bytes_ > max_bytes_) masks_.clear();
  auto mask = std::make_unique<TokenMask>();
  Make(state, *mask);
  return *masks_.emplace(state, std::move(mask)).first->second;
}

Automaton::State MaskMaker::WithoutFarEnds(Automaton::State state) {
  bool changed = false;
  others_.clear();
  const size_t count = automaton_.Positions(state).size();
  for (size_t i = 0; i < count; ++i) {
    Automaton::Position position = automaton_.Positions(state)[i];
    if (automaton_.grammar().edge(position.edge).kind == GrammarEdge::Kind::kText) {
      const ByteLexer::State near = automaton_.lexer().WithoutFarEnd(
          position.place, static_cast<uint32_t>(vocabulary_.max_token_bytes()));
      changed |= near != position.place;
      position.place = near;
    }
    others_.push_back(position);
  }
  return changed ? automaton_.StateOf(others_, automaton_.IsAccepting(state)) : state;
}

void MaskMaker::Make(Automaton::State state, TokenMask& mask) {
  // Positions in strings of any content have most tokens, and these are known before.
  others_.clear();
  const size_t count = automaton_.Positions(state).size();
  bool free_string = false;
  for (size_t i = 0; i < count; ++i) {
    const Automaton::Position position = automaton_.Positions(state)[i];
    if (AddFreeString(position, mask)) {
      free_string = true;
    } else {
      others_.push_back(position);
    }
  }
  if (mask.empty()) mask.resize(vocabulary_.mask_words());
  if (!others_.empty()) {
    const Automaton::State rest = free_string ? automaton_.StateOf(others_, false) : state;
    AddWalk(vocabulary_.plain(), rest, mask);
    AddWalk(vocabulary_.other(), rest, mask);
  }
  if (automaton_.IsAccepting(state))
    for (const int32_t id : vocabulary_.end_ids()) Allow(mask, id);
}

bool MaskMaker::AddFreeString(const Automaton::Position& position, TokenMask& mask) {
  if (automaton_.grammar().edge(position.edge).kind != GrammarEdge::Kind::kText) return false;
  uint32_t min = 0, max = 0;
  if (!automaton_.lexer().IsFreeString(position.place, &min, &max)) return false;
  if (mask.empty()) {
    vocabulary_.TokensInString(max, mask);
  } else {
    vocabulary_.TokensInString(max, part_);
    for (size_t i = 0; i < mask.size(); ++i) mask[i] |= part_[i];
  }
  AddClosings(automaton_.After(position), min, max, mask);
  return true;
}

void MaskMaker::AddClosings(Automaton::State behind, uint32_t min, uint32_t max, TokenMask& mask) {
  if (behind == Automaton::kDead) return;
  const auto closings = vocabulary_.closings();
  const TokenTrie& trie = vocabulary_.behind_quote();
  const auto add = [&](absl::Span<const int32_t> indices) {
    for (const int32_t index : indices) {
      const TokenVocabulary::Closing& closing = closings[index];
      if (closing.characters >= min && closing.characters <= max) Allow(mask, closing.token);
    }
  };
  add(trie.root_tokens());
  Walk(
      trie, behind, false, [&](size_t node) { add(trie.TokensAt(node)); },
      [&](size_t node) { add(trie.TokensBelow(node)); });
}

void MaskMaker::AddWalk(const TokenTrie& trie, Automaton::State state, TokenMask& mask) {
  Walk(
      trie, state, &trie == &vocabulary_.plain(),
      [&](size_t node) {
        for (const int32_t token : trie.TokensAt(node)) Allow(mask, token);
      },
      [&](size_t node) {
        const absl::Span<const uint64_t> below = trie.MaskBelow(node);
        for (size_t i = 0; i < below.size(); ++i) mask[i] |= below[i];
        if (!below.empty()) return;
        for (const int32_t token : trie.TokensBelow(node)) Allow(mask, token);
      });
}

template <typename Add, typename AddBelow>
void MaskMaker::Walk(const TokenTrie& trie, Automaton::State state, bool use_loops, Add&& add,
                     AddBelow&& add_below) {
  const absl::Span<const TokenTrie::Node> nodes = trie.nodes();
  path_.resize(static_cast<size_t>(trie.max_depth()) + 1);
  path_[0] = state;
  constexpr size_t kNodesOfAUnit = 4;  // of a checkpoint's work, where the steps are known
  size_t i = 0, num_visited = 0;
  while (i < nodes.size()) {
    const TokenTrie::Node& node = nodes[i];
    if (++num_visited % 1024 == 0) automaton_.grammar().space().Checkpoint(1024 / kNodesOfAUnit);
    const Automaton::State next = automaton_.Step(path_[node.depth - 1], node.byte);
    if (next == Automaton::kDead) {
      i = node.subtree_end;
      continue;
    }
    if (use_loops && (node.classes & ~automaton_.SelfLoop(next)) == 0) {
      add_below(i);
      i = node.subtree_end;
      continue;
    }
    add(i);
    path_[node.depth] = next;
    ++i;
  }
}

}  // namespace sluice
