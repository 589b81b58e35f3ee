#include "orchestrator/scheduler/step_sharing.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

// For so many steps after a tenant below its fair share was last seen it may come back, and should
// not find long steps in flight before its own.
constexpr StepId kExpectedSteps = 512;

// Others go on in every step, with a token and with a prompt where they have one.
constexpr double kForToken = 1;
constexpr double kForPrompt = 1;

}  // namespace

// As many positions of others that the step takes at most max_slowdown times as long as with those
// of tenants below their fair share alone; but as many as these have, by weight, however long that
// takes. What is left of a position counts for the next step.
int32_t StepSharing::RoomForOthers(bool may_prefill) {
  const int32_t all = options_.max_tokens_per_step;
  const SequenceList& running = table_.running();
  if (!cost_.known() || running.empty()) return all;
  const StepId step = flights_.next_id();
  const bool expected = last_shared_step_ > 0 && step <= last_shared_step_ + kExpectedSteps;
  const Tenants& tenants = admission_.tenants();
  if (tenants.num_active() < 2 && !expected) return all;
  int64_t positions = 0;
  double weight = 0;
  const int64_t highest = running.begin()->first.negated_priority;
  for (const auto& [position, sequence] : running) {
    if (position.negated_priority > highest) break;
    const Tenant& tenant = *sequence->tenant;
    if (!admission_.IsServed(*sequence) || !admission_.IsBelowFairShare(tenant)) continue;
    positions += std::clamp(sequence->num_pending(), 1, all);
    weight += tenant.policy.weight / sequence->share->num_running;
  }
  double fair = 0;
  if (positions > 0) {
    last_shared_step_ = step;
    fair = std::round(static_cast<double>(positions) * (tenants.active_weight() / weight - 1));
  } else if (!expected) {
    return all;
  } else if (flights_.size() > options_.max_inflight_steps) {
    return 0;  // no step goes ahead: a tenant that comes now would wait for it as well
  }
  const auto own = static_cast<double>(std::max<int64_t>(positions, 1));
  double room = (tenants.policies().max_slowdown - 1) * cost_.Of(own) / cost_.per_position;
  if (positions == 0) room += 1;  // the position of the tenant that is not here
  const double least = kForToken + (may_prefill ? kForPrompt : 0);
  room = std::min<double>(std::max({room, fair, least}) + rest_of_room_, all);
  rest_of_room_ = room - std::floor(room);
  return static_cast<int32_t>(room);
}

}  // namespace sluice
