// Computes the tokens that a state of an automaton allows: those whose bytes it can read to the
// end, ends of the text where it may end. Masks are kept by state. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "services/constraint/engine/automaton.h"
#include "services/constraint/engine/token_vocabulary.h"

namespace sluice {

class MaskMaker {
 public:
  // Both are borrowed. Masks that together take more than `max_bytes` are forgotten.
  MaskMaker(Automaton& automaton, const TokenVocabulary& vocabulary, size_t max_bytes);

  // Valid until the next call.
  const TokenMask& Mask(Automaton::State state);

  size_t memory() const { return masks_.size() * mask_bytes_; }

 private:
  // A state with the same mask, in which limits of length that no token can reach are infinite: one
  // for all places before these.
  Automaton::State WithoutFarEnds(Automaton::State state);
  void Make(Automaton::State state, TokenMask& mask);
  // Adds the tokens that a position in a JSON string of any content allows; false for others.
  bool AddFreeString(const Automaton::Position& position, TokenMask& mask);
  void AddClosings(Automaton::State behind, uint32_t min, uint32_t max, TokenMask& mask);
  // Calls `add(node)` for each node of the trie that `state` reaches and `add_below(node)` where
  // all below it would follow.
  template <typename Add, typename AddBelow>
  void Walk(const TokenTrie& trie, Automaton::State state, bool use_loops, Add&& add,
            AddBelow&& add_below);
  void AddWalk(const TokenTrie& trie, Automaton::State state, TokenMask& mask);

  Automaton& automaton_;
  const TokenVocabulary& vocabulary_;
  const size_t max_bytes_;
  const size_t mask_bytes_;
  absl::flat_hash_map<Automaton::State, std::unique_ptr<TokenMask>> masks_;
  std::vector<Automaton::State> path_;  // of a walk, by depth
  std::vector<Automaton::Position> others_;
  TokenMask part_;
};

}  // namespace sluice
