// Fuzzes grammars in GBNF: the answer is a status or a grammar whose masks allow just what its
// automaton reads, and never lead where nothing can follow.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "services/constraint/grammar/gbnf.h"
#include "tests/fuzz/constraint_masks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const sluice::GrammarLimits limits{.max_nodes = 20'000, .max_edges = 50'000};
  const sluice::ExprLimits expr_limits{.max_exprs = 20'000, .max_search = 2'000};
  auto grammar = sluice::GbnfGrammar(text, {}, limits, expr_limits);
  if (!grammar.ok()) {
    SLUICE_CHECK(!grammar.status().message().empty());
    return 0;
  }
  const auto plain = sluice::GbnfGrammar(text, {}, limits, expr_limits);
  SLUICE_CHECK(plain.ok());
  sluice::HoldMasks(*std::move(grammar), **plain, static_cast<uint32_t>(size * 2654435761u));
  return 0;
}
