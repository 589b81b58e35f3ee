#include "orchestrator/scheduler/admission_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace sluice {

void AdmissionQueue::RefreshPolicies() {
  if (!options_.tenant_policies) return;
  std::shared_ptr<const TenantPolicies> policies = options_.tenant_policies();
  if (policies == policies_ || policies == nullptr) return;
  policies_ = std::move(policies);
  tenants_.SetPolicies(*policies_);
}

// A tenant cannot fill the queue for others: one that has at most its share of it finds room in a
// full queue, until twice as much waits.
absl::Status AdmissionQueue::CheckQueue(const SequenceSpec& spec) const {
  const WaitingQueue& queue = table_.queue();
  const auto found = tenants_.all().find(spec.tenant);
  const Tenant* const tenant = found == tenants_.all().end() ? nullptr : &found->second;
  const int64_t waiting = tenant == nullptr ? 0 : tenant->num_waiting;
  const auto most = [&](int64_t limit, int64_t own, int64_t added) {
    const auto share = tenants_.ShareOf(spec.tenant) * static_cast<double>(limit);
    return waiting == 0 || static_cast<double>(own + added) <= share ? 2 * limit : limit;
  };
  const int64_t most_sequences = most(options_.max_queued_sequences, waiting, 1);
  if (queue.num_sequences() >= most_sequences) {
    return absl::ResourceExhaustedError(absl::StrCat(
        queue.num_sequences(), " sequences are waiting; the limit is ", most_sequences));
  }
  const auto tokens = std::ssize(spec.prompt) + std::ssize(spec.resumed_tokens);
  const int64_t most_tokens =
      most(options_.max_queued_tokens, tenant == nullptr ? 0 : tenant->num_waiting_tokens, tokens);
  if (!queue.empty() && queue.num_tokens() + tokens > most_tokens) {
    return absl::ResourceExhaustedError(absl::StrCat("the sequences that wait have ",
                                                     queue.num_tokens(), " tokens, this one ",
                                                     tokens, "; the limit is ", most_tokens));
  }
  const int32_t granted = tenants_.policies().Of(spec.tenant).max_waiting_sequences;
  if (waiting >= granted) {
    return absl::ResourceExhaustedError(absl::StrCat(
        waiting, " sequences of tenant \"", spec.tenant, "\" are waiting; its limit is ", granted));
  }
  return absl::OkStatus();
}

// While the tenant's own sequences are served, those of others are, in proportion to their shares.
double AdmissionQueue::StartsAhead(const std::string& tenant) const {
  const WaitingQueue& queue = table_.queue();
  if (queue.empty()) return 0;
  const auto found = tenants_.all().find(tenant);
  const int32_t own = found == tenants_.all().end() ? 0 : found->second.num_waiting;
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
  if (tenant.num_running >= fair - fair / kPartToWaitFor) return false;
  return std::any_of(table_.running().begin(), table_.running().end(), [&](const auto& entry) {
    const SequenceState& other = *entry.second;
    return other.tenant != &tenant &&
           other.position.negated_priority == sequence.position.negated_priority &&
           HasExtraSlot(other, 0);
  });
}

bool AdmissionQueue::HasExtraSlot(const SequenceState& sequence, int32_t num_displaced) const {
  const Tenant& tenant = *sequence.tenant;
  return tenant.num_running - num_displaced > tenants_.FairSlots(tenant, table_.num_slots());
}

void AdmissionQueue::Charge(SequenceState& sequence, int32_t num_positions, int32_t num_drafts) {
  Tenant& tenant = *sequence.tenant;
  if (num_positions > 1) {
    return table_.queue().Charge(tenant, num_positions * Tenants::kPrefillPrice);
  }
  if (tenant.uncharged == 0) uncharged_.push_back(&tenant);
  tenant.uncharged += Tenants::kDecodePrice + num_drafts * Tenants::kPrefillPrice;
}

void AdmissionQueue::ChargeDecodes() {
  for (Tenant* tenant : uncharged_) {
    table_.queue().Charge(*tenant, std::exchange(tenant->uncharged, 0));
  }
  uncharged_.clear();
}

void AdmissionQueue::ChargeTime(const std::string& name, double seconds, const StepCost& cost) {
  // About what a position of a small model costs, where its cost is not known.
  constexpr double kSecondsPerPosition = 1e-3;
  Tenant* const tenant = tenants_.Find(name);
  if (tenant == nullptr || tenant->num_alive == 0) return;
  const double each = cost.known() ? cost.per_position : kSecondsPerPosition;
  table_.queue().Charge(*tenant, Tenants::kDecodePrice * seconds / each);
}

absl::Status AdmissionQueue::CheckIntegrity() const {
  struct Count {
    int32_t alive = 0, running = 0, waiting = 0;
    int64_t waiting_tokens = 0;
  };
  absl::flat_hash_map<const Tenant*, Count> counts;
  for (const auto& [id, sequence] : table_.all()) {
    Count& count = counts[sequence.tenant];
    ++count.alive;
    count.running += sequence.is_running() ? 1 : 0;
    if (sequence.state != SequenceState::State::kWaiting) continue;
    ++count.waiting;
    count.waiting_tokens += sequence.num_tokens();
  }
  for (const auto& [name, tenant] : tenants_.all()) {
    const Count& count = counts[&tenant];
    if (tenant.num_alive != count.alive || tenant.num_running != count.running ||
        tenant.num_waiting != count.waiting || tenant.num_waiting_tokens != count.waiting_tokens ||
        tenant.uncharged != 0) {
      return absl::InternalError(absl::StrCat(
          "tenant \"", name, "\" has ", count.alive, " sequences, ", count.running, " running, ",
          count.waiting, " waiting with ", count.waiting_tokens, " tokens; counted as ",
          tenant.num_alive, ", ", tenant.num_running, " running, ", tenant.num_waiting,
          " waiting with ", tenant.num_waiting_tokens, ", and ", tenant.uncharged,
          " tokens not charged"));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
