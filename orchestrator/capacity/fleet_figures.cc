#include "orchestrator/capacity/fleet_figures.h"

#include <algorithm>
#include <numeric>

namespace sluice {
namespace {

double RatioOf(double part, double whole, double otherwise) {
  return whole > 0 ? part / whole : otherwise;
}

}  // namespace

void FleetFigures::Add(const FleetFigures& other) {
  if (num_failed == 0) failure = other.failure;
  for (int64_t FleetFigures::*const count :
       {&FleetFigures::num_requests, &FleetFigures::num_finished, &FleetFigures::num_refused,
        &FleetFigures::num_failed, &FleetFigures::num_kept, &FleetFigures::prompt_tokens,
        &FleetFigures::cached_prompt_tokens, &FleetFigures::generated_tokens,
        &FleetFigures::num_preemptions, &FleetFigures::num_losses, &FleetFigures::num_moved,
        &FleetFigures::num_steps, &FleetFigures::num_segments}) {
    this->*count += other.*count;
  }
  for (LogHistogram FleetFigures::*const times :
       {&FleetFigures::first_token, &FleetFigures::between_tokens, &FleetFigures::request,
        &FleetFigures::queue}) {
    (this->*times).Add(other.*times);
  }
  seconds = std::max(seconds, other.seconds);
  arrival_seconds = std::max(arrival_seconds, other.arrival_seconds);
  window_seconds = other.window_seconds;
  if (windows.size() < other.windows.size()) windows.resize(other.windows.size());
  for (size_t i = 0; i < other.windows.size(); ++i) {
    windows[i].arrivals += other.windows[i].arrivals;
    windows[i].waiting += other.windows[i].waiting;
    windows[i].running += other.windows[i].running;
    windows[i].used_blocks += other.windows[i].used_blocks;
    windows[i].first_token.Add(other.windows[i].first_token);
  }
}

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
