#include "orchestrator/scheduler/admission_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

void AdmissionQueue::Refresh() {
  tenants_.RefreshPolicies();
  table_.queue().TakeCharges();
}

// A tenant cannot fill the queue for others: one that has at most its share of it finds room in a
// full queue, until twice as much waits.
absl::Status AdmissionQueue::CheckQueue(const SequenceSpec& spec) const {
  const WaitingQueue& queue = table_.queue();
  const TenantShare* const own = table_.ShareOf(spec.tenant);
  const int64_t waiting = own == nullptr ? 0 : own->num_waiting;
  const auto most = [&](int64_t limit, int64_t present, int64_t added) {
    const auto share = tenants_.ShareOf(spec.tenant) * static_cast<double>(limit);
    return waiting == 0 || static_cast<double>(present + added) <= share ? 2 * limit : limit;
  };
  const int64_t most_sequences = most(options_.max_queued_sequences, waiting, 1);
  if (queue.num_sequences() >= most_sequences) {
    return absl::ResourceExhaustedError(absl::StrCat(
        queue.num_sequences(), " sequences are waiting; the limit is ", most_sequences));
  }
  const auto tokens = std::ssize(spec.prompt) + std::ssize(spec.resumed_tokens);
  const int64_t most_tokens =
      most(options_.max_queued_tokens, own == nullptr ? 0 : own->num_waiting_tokens, tokens);
  if (!queue.empty() && queue.num_tokens() + tokens > most_tokens) {
    return absl::ResourceExhaustedError(absl::StrCat("the sequences that wait have ",
                                                     queue.num_tokens(), " tokens, this one ",
                                                     tokens, "; the limit is ", most_tokens));
  }
  const int32_t granted = tenants_.policies().Of(spec.tenant).max_waiting_sequences;
  const Tenant* const tenant = tenants_.Find(spec.tenant);
  const int32_t waiting_anywhere = tenant == nullptr ? 0 : tenant->num_waiting;
  if (waiting_anywhere >= granted) {
    return absl::ResourceExhaustedError(absl::StrCat(waiting_anywhere, " sequences of tenant \"",
                                                     spec.tenant, "\" are waiting; its limit is ",
                                                     granted));
  }
  return absl::OkStatus();
}

// While the tenant's own sequences are served, those of others are, in proportion to their shares.
double AdmissionQueue::StartsAhead(const std::string& tenant) const {
  const WaitingQueue& queue = table_.queue();
  if (queue.empty()) return 0;
  const TenantShare* const share = table_.ShareOf(tenant);
  const int32_t own = share == nullptr ? 0 : share->num_waiting;
  return std::min<double>(queue.num_sequences() + 1, (own + 1) / tenants_.ShareOf(tenant));
}

bool AdmissionQueue::GoesBefore(const SequenceState& a, const SequenceState& b) {
  const auto key = [](const SequenceState& sequence) {
    return std::tuple(sequence.position.negated_priority, sequence.tenant->served,
                      ~sequence.tenant->serial, sequence.position);
  };
  return key(a) < key(b);
}

bool AdmissionQueue::WaitsForSibling(const SequenceState& sequence) const {
  const SequenceState* sibling = table_.SiblingOf(sequence);
  return sibling != nullptr && options_.ShareKeys(sibling->num_tokens(), sequence.num_tokens()) &&
         !sibling->paused && !sibling->deferred && !sibling->awaits_choice &&
         sibling->position < sequence.position && sibling->num_computed < sequence.num_prompt();
}

// What is displaced is computed again and holds up the steps ahead: where little is missing, the
// next slot that becomes free makes up for it.
bool AdmissionQueue::MayDisplace(const SequenceState& sequence) const {
  constexpr int32_t kPartToWaitFor = 8;
  const Tenant& tenant = *sequence.tenant;
  if (tenants_.num_active() < 2) return false;
  const int32_t fair = tenants_.FairSlots(tenant, table_.num_slots());
  if (sequence.share->num_running >= fair - fair / kPartToWaitFor) return false;
  return std::any_of(table_.running().begin(), table_.running().end(), [&](const auto& entry) {
    const SequenceState& other = *entry.second;
    return other.tenant != &tenant &&
           other.position.negated_priority == sequence.position.negated_priority &&
           HasExtraSlot(other, 0);
  });
}

bool AdmissionQueue::HasExtraSlot(const SequenceState& sequence, int32_t num_displaced) const {
  return sequence.share->num_running - num_displaced >
         tenants_.FairSlots(*sequence.tenant, table_.num_slots());
}

void AdmissionQueue::Charge(SequenceState& sequence, int32_t num_positions, int32_t num_drafts) {
  TenantShare& share = *sequence.share;
  if (num_positions > 1) {
    return table_.queue().Charge(share, num_positions * Tenants::kPrefillPrice);
  }
  if (share.uncharged == 0) uncharged_.push_back(&share);
  share.uncharged += Tenants::kDecodePrice + num_drafts * Tenants::kPrefillPrice;
}

void AdmissionQueue::ChargeDecodes() {
  for (TenantShare* share : uncharged_) {
    table_.queue().Charge(*share, std::exchange(share->uncharged, 0));
  }
  uncharged_.clear();
}

void AdmissionQueue::ChargeTime(const std::string& name, double seconds, const StepCost& cost) {
  // About what a position of a small model costs, where its cost is not known.
  constexpr double kSecondsPerPosition = 1e-3;
  const double each = cost.known() ? cost.per_position : kSecondsPerPosition;
  const double tokens = Tenants::kDecodePrice * seconds / each;
  TenantShare* const share = table_.ShareOf(name);
  if (share == nullptr) return tenants_.ChargeIdle(name, tokens, table_.queue().least_served());
  table_.queue().Charge(*share, tokens);
}

}  // namespace sluice
