#include "orchestrator/drafts/draft_lengths.h"

#include <algorithm>
#include <cstddef>

namespace sluice {
namespace {

struct Piece {
  double chance = 0;
  size_t proposal = 0;
};

}  // namespace

DraftLengths ChooseLengths(int32_t num_decodes, absl::Span<const std::vector<double>> chances,
                           int32_t most, double margin, const CostOfRows& cost) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < chances.size(); ++i) {
    for (const double chance : chances[i]) pieces.push_back({chance, i});
  }
  // The likeliest first; those of one proposal stay in order, since their chances fall.
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.chance > b.chance; });
  if (std::ssize(pieces) > most) pieces.resize(most);
  double expected = num_decodes;
  DraftLengths best = {.of = std::vector<int32_t>(chances.size()),
                       .rate = expected / cost(num_decodes)};
  const double without = best.rate;
  size_t num_best = 0;
  for (size_t n = 1; n <= pieces.size(); ++n) {
    expected += pieces[n - 1].chance;
    const double rate = expected / cost(num_decodes + static_cast<int32_t>(n));
    if (rate <= best.rate || rate < without * (1 + margin)) continue;
    best.rate = rate;
    num_best = n;
  }
  for (size_t n = 0; n < num_best; ++n) ++best.of[pieces[n].proposal];
  return best;
}

}  // namespace sluice
