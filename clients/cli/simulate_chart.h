// Draws what a simulated fleet did: how long first tokens took over the time and for which share of
// the requests, what was under way, and the time between tokens, or of a search what it tried. A pure
// function.
#pragma once

#include <string>

#include "clients/cli/simulate_report.h"

namespace sluice {

// An SVG image of its own, in light colours, with a title for screen readers.
std::string SimulationChart(const SimulationReport& report);

}  // namespace sluice
