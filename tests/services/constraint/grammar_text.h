// Reads whole texts by a grammar, byte by byte and without a vocabulary: the plain way that masks
// are held against.
#pragma once

#include <string_view>

#include "services/constraint/engine/automaton.h"
#include "services/constraint/grammar/grammar.h"

namespace sluice::testing {

inline bool Accepts(Automaton& automaton, std::string_view text) {
  Automaton::State state = automaton.start();
  for (const char c : text) {
    state = automaton.Step(state, static_cast<uint8_t>(c));
    if (state == Automaton::kDead) return false;
  }
  return automaton.IsAccepting(state);
}

inline bool Accepts(const Grammar& grammar, std::string_view text) {
  Automaton automaton(grammar);
  return Accepts(automaton, text);
}

}  // namespace sluice::testing
