// How much of a step others may have beside a tenant that asks for little.
#include <algorithm>
#include <cmath>

#include "orchestrator/scheduler/scheduler.h"

namespace sluice {
namespace {

// So many steps after a light tenant was last seen it may come again, and should not find long
// steps under way before its own.
constexpr StepId kExpectedSteps = 512;

// Others go on in every step, with a token and with a prompt where they have one.
constexpr double kForToken = 1;
constexpr double kForPrompt = 1;

}  // namespace

// Less than half its part of all sequences, by weight: it should not feel how many the others have.
bool Scheduler::IsLight(const Tenant& tenant) const {
  return tenants_.AsksForLittle(tenant, std::ssize(sequences_));
}

// So many positions of others that steps take at most max_slowdown times as long as with those of
// light tenants alone; but as many as these have, by weight, however long that takes. What is left of
// a position counts for the next step.
int32_t Scheduler::RoomForOthers(StepId step) {
  const int32_t all = options_.max_tokens_per_step;
  if (!step_cost_.known() || running_.empty()) return all;
  const bool expected = last_light_step_ > 0 && step <= last_light_step_ + kExpectedSteps;
  if (tenants_.num_active() < 2 && !expected) return all;
  int64_t positions = 0;
  double weight = 0;
  const int64_t highest = running_.begin()->first.negated_priority;
  for (const auto& [place, sequence] : running_) {
    if (place.negated_priority > highest) break;
    const Tenant& tenant = *sequence->tenant;
    if (!MayRun(*sequence) || !IsLight(tenant)) continue;
    positions += std::clamp(sequence->num_pending(), 1, all);
    weight += tenant.policy.weight / tenant.num_running;
  }
  double fair = 0;
  if (positions > 0) {
    last_light_step_ = step;
    fair = std::round(static_cast<double>(positions) * (tenants_.active_weight() / weight - 1));
  } else if (!expected) {
    return all;
  } else if (std::ssize(in_flight_) > options_.max_inflight_steps) {
    return 0;  // no step goes ahead: who comes now would wait for it as well
  }
  const auto light = static_cast<double>(std::max<int64_t>(positions, 1));
  double room =
      (tenants_.policies().max_slowdown - 1) * step_cost_.Of(light) / step_cost_.per_position;
  if (positions == 0) room += 1;  // that of the one which is not here
  const double least = kForToken + (MayPrefill() ? kForPrompt : 0);
  room = std::min<double>(std::max({room, fair, least}) + rest_of_room_, all);
  rest_of_room_ = room - std::floor(room);
  return static_cast<int32_t>(room);
}

// Positions of a sequence that a step with this much left may have.
int32_t Scheduler::MostOf(const SequenceState& sequence, const Budget& budget) const {
  if (!budget.is_shared || IsLight(*sequence.tenant)) return budget.tokens;
  return std::min(budget.tokens, budget.others);
}

}  // namespace sluice
