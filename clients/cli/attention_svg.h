// Pictures of attention: heat maps as SVG, fit for a browser, light or dark as the reader has it. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cli/attention_text.h"

namespace sluice {

struct HeatMap {
  std::string title;
  Triangle weights;
};

// One map with the tokens beside rows and columns, or several as panels, by layer and head, without.
// `tokens` are the labels of positions. Cells of less than 0.5% are left out; a cell says the pair and its
// weight where a pointer rests on it. INVALID_ARGUMENT where more than 100,000 cells would be drawn.
// REQUIRES: at least one map.
absl::StatusOr<std::string> HeatMapsSvg(const std::vector<HeatMap>& maps, int panels_per_row,
                                        const std::vector<std::string>& tokens);

}  // namespace sluice
