#include "orchestrator/scheduler/waiting_line.h"

#include <algorithm>

#include "kernels/check.h"

namespace sluice {

void WaitingLine::Insert(SequenceState& sequence) {
  Tenant& tenant = *sequence.tenant;
  const int64_t priority = sequence.place.negated_priority;
  SLUICE_CHECK(tenant.waiting[priority].emplace(sequence.place, &sequence).second);
  by_priority_[priority].insert(&tenant);
  ++tenant.num_waiting;
  ++num_sequences_;
  tenant.num_waiting_tokens += sequence.num_tokens();
  num_tokens_ += sequence.num_tokens();
}

void WaitingLine::Erase(SequenceState& sequence) {
  Tenant& tenant = *sequence.tenant;
  const auto line = tenant.waiting.find(sequence.place.negated_priority);
  SLUICE_CHECK(line != tenant.waiting.end() && line->second.erase(sequence.place) == 1);
  if (line->second.empty()) {
    const auto tenants = by_priority_.find(line->first);
    least_served_ = std::max(least_served_, tenant.served);
    tenants->second.erase(&tenant);
    if (tenants->second.empty()) by_priority_.erase(tenants);
    tenant.waiting.erase(line);
  }
  --tenant.num_waiting;
  --num_sequences_;
  tenant.num_waiting_tokens -= sequence.num_tokens();
  num_tokens_ -= sequence.num_tokens();
}

SequenceState* WaitingLine::Next() {
  for (const auto& [negated_priority, tenants] : by_priority_) {
    for (Tenant* tenant : tenants) {
      if (tenant->num_running >= tenant->policy.max_running_sequences) continue;
      const Line& line = tenant->waiting.at(negated_priority);
      const auto next =
          tenant->seen_in_round == round_ ? line.upper_bound(tenant->seen) : line.begin();
      if (next != line.end()) return next->second;
    }
  }
  return nullptr;
}

void WaitingLine::Pass(SequenceState& sequence) {
  sequence.tenant->seen = sequence.place;
  sequence.tenant->seen_in_round = round_;
}

void WaitingLine::Bill(Tenant& tenant, double tokens) {
  for (const auto& [priority, line] : tenant.waiting) by_priority_.at(priority).erase(&tenant);
  tenant.served += tokens / tenant.policy.weight;
  for (const auto& [priority, line] : tenant.waiting) by_priority_.at(priority).insert(&tenant);
}

double WaitingLine::least_served() const {
  if (by_priority_.empty()) return least_served_;
  return (*by_priority_.begin()->second.begin())->served;
}

}  // namespace sluice
