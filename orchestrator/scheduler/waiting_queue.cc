#include "orchestrator/scheduler/waiting_queue.h"

#include <algorithm>

#include "kernels/check.h"

namespace sluice {

void WaitingQueue::Insert(SequenceState& sequence) {
  Tenant& tenant = *sequence.tenant;
  const int64_t priority = sequence.position.negated_priority;
  SLUICE_CHECK(tenant.waiting[priority].emplace(sequence.position, &sequence).second);
  by_priority_[priority].insert(&tenant);
  ++tenant.num_waiting;
  ++num_sequences_;
  tenant.num_waiting_tokens += sequence.num_tokens();
  num_tokens_ += sequence.num_tokens();
}

void WaitingQueue::Erase(SequenceState& sequence) {
  Tenant& tenant = *sequence.tenant;
  const auto list = tenant.waiting.find(sequence.position.negated_priority);
  SLUICE_CHECK(list != tenant.waiting.end() && list->second.erase(sequence.position) == 1);
  if (list->second.empty()) {
    const auto tenants = by_priority_.find(list->first);
    least_served_ = std::max(least_served_, tenant.served);
    tenants->second.erase(&tenant);
    if (tenants->second.empty()) by_priority_.erase(tenants);
    tenant.waiting.erase(list);
  }
  --tenant.num_waiting;
  --num_sequences_;
  tenant.num_waiting_tokens -= sequence.num_tokens();
  num_tokens_ -= sequence.num_tokens();
}

SequenceState* WaitingQueue::Next() {
  for (const auto& [negated_priority, tenants] : by_priority_) {
    for (Tenant* tenant : tenants) {
      if (tenant->num_running >= tenant->policy.max_running_sequences) continue;
      const SequenceList& list = tenant->waiting.at(negated_priority);
      const auto next =
          tenant->seen_in_round == round_ ? list.upper_bound(tenant->seen) : list.begin();
      if (next != list.end()) return next->second;
    }
  }
  return nullptr;
}

void WaitingQueue::Pass(SequenceState& sequence) {
  sequence.tenant->seen = sequence.position;
  sequence.tenant->seen_in_round = round_;
}

void WaitingQueue::Charge(Tenant& tenant, double tokens) {
  for (const auto& [priority, list] : tenant.waiting) by_priority_.at(priority).erase(&tenant);
  tenant.served += tokens / tenant.policy.weight;
  for (const auto& [priority, list] : tenant.waiting) by_priority_.at(priority).insert(&tenant);
}

double WaitingQueue::least_served() const {
  if (by_priority_.empty()) return least_served_;
  return (*by_priority_.begin()->second.begin())->served;
}

}  // namespace sluice
