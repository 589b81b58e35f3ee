// How many tokens of each proposal a step is to compute: those that bring the most tokens per second.
// Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"

namespace sluice {

// In any unit of time, what a step of so many rows takes.
using CostOfRows = std::function<double(int32_t rows)>;

struct DraftLengths {
  std::vector<int32_t> of;  // by proposal, the leading tokens to compute
  double rate = 0;          // expected tokens per unit of time; of those without drafts included
};

// `chances[i][j]` in [0, 1], falling along j: that the first j + 1 tokens of proposal i are all
// right. The step chooses one token for each of `num_decodes` sequences besides, and may compute at
// most `most` tokens of drafts. Drafts that win less than `margin` (0.02: 2%) are not computed.
DraftLengths ChooseLengths(int32_t num_decodes, absl::Span<const std::vector<double>> chances,
                           int32_t most, double margin, const CostOfRows& cost);

}  // namespace sluice
