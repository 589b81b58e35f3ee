#include "orchestrator/scheduler/adapter_slots.h"

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {

std::optional<int32_t> AdapterSlots::FindFree() const {
  std::optional<int32_t> best;
  for (int32_t slot = 0; slot < num_slots(); ++slot) {
    if (slots_[slot].holders > 0) continue;
    if (slots_[slot].adapter.empty()) return slot;
    if (!best.has_value() || slots_[slot].last_used < slots_[*best].last_used) best = slot;
  }
  return best;
}

bool AdapterSlots::MayRun(const std::string& adapter, uint64_t sequence, bool has_begun) {
  if (adapter.empty()) return true;
  const bool overtakes = waiter_ != 0 && waiter_ != sequence && awaited_ != adapter && !has_begun;
  if (overtakes && num_overtakers_ >= kMaxOvertakers) return false;
  if (by_adapter_.contains(adapter) || FindFree().has_value()) return true;
  if (waiter_ == 0) {
    waiter_ = sequence;
    awaited_ = adapter;
  }
  return false;
}

void AdapterSlots::ForgetWaiter(uint64_t sequence) {
  if (waiter_ != sequence) return;
  waiter_ = 0;
  num_overtakers_ = 0;
}

void AdapterSlots::Acquire(const std::string& adapter, uint64_t sequence) {
  if (adapter.empty()) return;
  if (waiter_ != 0 && waiter_ != sequence) ++num_overtakers_;
  ForgetWaiter(sequence);
  auto found = by_adapter_.find(adapter);
  if (found == by_adapter_.end()) {
    const std::optional<int32_t> free = FindFree();
    SLUICE_CHECK(free.has_value());
    Slot& slot = slots_[*free];
    if (!slot.adapter.empty()) by_adapter_.erase(slot.adapter);
    slot = {.adapter = adapter, .told = false};
    found = by_adapter_.emplace(adapter, *free).first;
  }
  Slot& slot = slots_[found->second];
  ++slot.holders;
  slot.last_used = ++clock_;
}

void AdapterSlots::Release(const std::string& adapter) {
  if (adapter.empty()) return;
  Slot& slot = slots_[by_adapter_.at(adapter)];
  SLUICE_CHECK(slot.holders > 0);
  --slot.holders;
  slot.last_used = ++clock_;
}

int32_t AdapterSlots::SlotOf(const std::string& adapter) const {
  const auto found = by_adapter_.find(adapter);
  return found == by_adapter_.end() ? -1 : found->second;
}

std::vector<AdapterChange> AdapterSlots::TakeChanges() {
  std::vector<AdapterChange> changes;
  for (int32_t slot = 0; slot < num_slots(); ++slot) {
    if (slots_[slot].told) continue;
    slots_[slot].told = true;
    changes.push_back({.slot = slot, .adapter = slots_[slot].adapter});
  }
  return changes;
}

void AdapterSlots::ForgetTold() {
  for (Slot& slot : slots_) {
    if (slot.holders == 0) {
      by_adapter_.erase(slot.adapter);
      slot = Slot();
    } else {
      slot.told = false;
    }
  }
}

bool AdapterSlots::Drop(const std::string& adapter) {
  const auto found = by_adapter_.find(adapter);
  if (found == by_adapter_.end()) return true;
  Slot& slot = slots_[found->second];
  if (slot.holders > 0) return false;
  by_adapter_.erase(found);
  slot = {.told = false};
  return true;
}

absl::Status AdapterSlots::CheckIntegrity(
    const absl::flat_hash_map<std::string, int32_t>& holders) const {
  size_t num_used = 0;
  for (int32_t slot = 0; slot < num_slots(); ++slot) {
    const Slot& each = slots_[slot];
    const auto found = holders.find(each.adapter);
    const int32_t expected = each.adapter.empty() || found == holders.end() ? 0 : found->second;
    num_used += expected > 0 ? 1 : 0;
    const bool is_known = each.adapter.empty() || SlotOf(each.adapter) == slot;
    if (each.holders == expected && is_known) continue;
    return absl::InternalError(absl::StrCat("adapter slot ", slot, " is held by ", each.holders,
                                            " sequences; ", expected, " run with \"", each.adapter,
                                            "\""));
  }
  if (num_used == holders.size()) return absl::OkStatus();
  return absl::InternalError("a running sequence has an adapter without a slot");
}

}  // namespace sluice
