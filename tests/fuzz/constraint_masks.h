// Holds the masks of a grammar against its automaton, read plainly, along a walk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "services/constraint/engine/matcher.h"

namespace sluice {

// Single bytes, pieces of JSON and of characters, and the end.
inline std::shared_ptr<const TokenVocabulary> FuzzVocabulary() {
  TokenVocabularyOptions options;
  for (int byte = 0; byte < 256; ++byte) options.bytes.emplace_back(1, static_cast<char>(byte));
  for (const char* token : {"\"a", "a\"", "{\"", "\": ", "\", \"", "\"}", "[]", "12", "ab", "abcab",
                            "\\n", "\\u00", "\xC3\xA9", "\xE2\x82", "\x82\xAC", "}}", "], ["})
    options.bytes.emplace_back(token);
  options.end_ids = {static_cast<int32_t>(options.bytes.size())};
  options.bytes.emplace_back();
  return *TokenVocabulary::Create(std::move(options));
}

// Two grammars of the same text: one for the masks, one to be read. `seed` chooses the way.
inline void HoldMasks(std::unique_ptr<Grammar> masked, const Grammar& plain, uint32_t seed) {
  static const auto* const kVocabulary =
      new std::shared_ptr<const TokenVocabulary>(FuzzVocabulary());
  const TokenVocabulary& vocabulary = **kVocabulary;
  Matcher matcher(Constraint::Create(std::move(masked), *kVocabulary, {.max_work = 50'000}));
  Automaton automaton(plain);
  Automaton::State state = automaton.start();
  TokenMask mask(vocabulary.mask_words());
  for (int step = 0; step < 8; ++step) {
    if (!matcher.FillMask(absl::MakeSpan(mask)).ok()) return;
    std::vector<std::pair<int32_t, Automaton::State>> ways;
    for (size_t token = 0; token < vocabulary.size(); ++token) {
      const auto id = static_cast<int32_t>(token);
      const bool allowed = (mask[token / 64] >> (token % 64) & 1) != 0;
      if (vocabulary.IsEnd(id)) {
        SLUICE_CHECK(allowed == automaton.IsAccepting(state));
        continue;
      }
      automaton.GrantWork(1'000'000);
      Automaton::State after = state;
      for (const char c : vocabulary.bytes(id))
        after = automaton.Step(after, static_cast<uint8_t>(c));
      if (automaton.exhausted()) return;
      SLUICE_CHECK(allowed == (after != Automaton::kDead));
      if (allowed) ways.emplace_back(id, after);
    }
    SLUICE_CHECK(!ways.empty() || automaton.IsAccepting(state));
    if (ways.empty()) return;
    seed = seed * 1664525 + 1013904223;
    const auto& [token, after] = ways[(seed >> 8) % ways.size()];
    if (!matcher.Accept(token).ok()) return;
    state = after;
  }
}

}  // namespace sluice
