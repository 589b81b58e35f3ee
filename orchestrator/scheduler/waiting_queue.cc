#include "orchestrator/scheduler/waiting_queue.h"

#include <vector>

#include "kernels/check.h"

namespace sluice {

void WaitingQueue::Insert(SequenceState& sequence) {
  TenantShare& share = *sequence.share;
  const int64_t priority = sequence.position.negated_priority;
  if (share.waiting.empty()) share.served = share.tenant->served;
  SLUICE_CHECK(share.waiting[priority].emplace(sequence.position, &sequence).second);
  by_priority_[priority].insert(&share);
  ++share.tenant->num_waiting;
  ++share.num_waiting;
  ++num_sequences_;
  share.num_waiting_tokens += sequence.num_tokens();
  num_tokens_ += sequence.num_tokens();
}

void WaitingQueue::Erase(SequenceState& sequence) {
  TenantShare& share = *sequence.share;
  const auto list = share.waiting.find(sequence.position.negated_priority);
  SLUICE_CHECK(list != share.waiting.end() && list->second.erase(sequence.position) == 1);
  if (list->second.empty()) {
    const auto shares = by_priority_.find(list->first);
    tenants_.RaiseStart(share.served);
    shares->second.erase(&share);
    if (shares->second.empty()) by_priority_.erase(shares);
    share.waiting.erase(list);
  }
  --share.tenant->num_waiting;
  --share.num_waiting;
  --num_sequences_;
  share.num_waiting_tokens -= sequence.num_tokens();
  num_tokens_ -= sequence.num_tokens();
}

SequenceState* WaitingQueue::Next() {
  for (const auto& [negated_priority, shares] : by_priority_) {
    for (TenantShare* share : shares) {
      const Tenant& tenant = *share->tenant;
      if (tenant.num_running >= tenant.policy.max_running_sequences) continue;
      const SequenceList& list = share->waiting.at(negated_priority);
      const auto next =
          share->seen_in_round == round_ ? list.upper_bound(share->seen) : list.begin();
      if (next != list.end()) return next->second;
    }
  }
  return nullptr;
}

void WaitingQueue::Pass(SequenceState& sequence) {
  sequence.share->seen = sequence.position;
  sequence.share->seen_in_round = round_;
}

void WaitingQueue::Charge(TenantShare& share, double tokens) {
  const bool is_current = num_charges_ == tenants_.num_charges();
  tenants_.Charge(*share.tenant, tokens);
  if (is_current) num_charges_ = tenants_.num_charges();
  Reorder(share);
}

void WaitingQueue::Reorder(TenantShare& share) {
  for (const auto& [priority, list] : share.waiting) by_priority_.at(priority).erase(&share);
  share.served = share.tenant->served;
  for (const auto& [priority, list] : share.waiting) by_priority_.at(priority).insert(&share);
}

void WaitingQueue::TakeCharges() {
  if (num_charges_ == tenants_.num_charges()) return;
  num_charges_ = tenants_.num_charges();
  std::vector<TenantShare*> changed;
  for (const auto& [priority, shares] : by_priority_) {
    for (TenantShare* share : shares) {
      if (share->served != share->tenant->served) changed.push_back(share);
    }
  }
  for (TenantShare* share : changed) Reorder(*share);
}

double WaitingQueue::least_served() const {
  if (by_priority_.empty()) return tenants_.start();
  return (*by_priority_.begin()->second.begin())->served;
}

}  // namespace sluice
