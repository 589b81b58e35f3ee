#include "orchestrator/capacity/fleet_figures.h"

#include <numeric>

namespace sluice {
namespace {

double RatioOf(double part, double whole, double otherwise) {
  return whole > 0 ? part / whole : otherwise;
}

}  // namespace

double FleetFigures::kept_share() const {
  return RatioOf(static_cast<double>(num_kept), static_cast<double>(num_requests), 1);
}

double FleetFigures::goodput() const { return RatioOf(static_cast<double>(num_kept), seconds, 0); }

double FleetFigures::mean_busy() const {
  return RatioOf(std::accumulate(busy.begin(), busy.end(), 0.0), static_cast<double>(busy.size()),
                 0);
}

double FleetFigures::cache_hit_share() const {
  return RatioOf(static_cast<double>(cached_prompt_tokens), static_cast<double>(prompt_tokens), 0);
}

double FleetFigures::mean_step_sequences() const {
  return RatioOf(static_cast<double>(num_segments), static_cast<double>(num_steps), 0);
}

}  // namespace sluice
