// Who may queue, in which order sequences are served, and what tenants are charged for it. The
// order: higher priorities first; within a priority the tenant that has been served least by its
// weight; within a tenant by QueuePosition. It decides nothing about blocks. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "orchestrator/scheduler/scheduler_options.h"
#include "orchestrator/scheduler/state_table.h"
#include "orchestrator/scheduler/step_cost.h"
#include "orchestrator/scheduler/tenants.h"

namespace sluice {

class AdmissionQueue {
 public:
  // Borrows all three.
  AdmissionQueue(const SchedulerOptions& options, Tenants& tenants, StateTable& table)
      : options_(options), tenants_(tenants), table_(table) {}

  // Takes over what tenants are granted by now, and what other schedulers have charged them.
  void Refresh();

  // OK, or RESOURCE_EXHAUSTED: the queue is full, or the tenant's share of it.
  absl::Status CheckQueue(const SequenceSpec& spec) const;
  // How many waiting sequences are served before a new one of this tenant: an estimate, for the
  // lowest priority.
  double StartsAhead(const std::string& tenant) const;

  // ---- Candidates ----

  // Waiting sequences in serving order, each once in a round; null: no more. A candidate is the
  // next one until Pass, or until it leaves the queue.
  void BeginRound() { table_.queue().BeginRound(); }
  SequenceState* Next() { return table_.queue().Next(); }
  void Pass(SequenceState& sequence) { table_.queue().Pass(sequence); }
  // Whether the first is served before the second.
  static bool GoesBefore(const SequenceState& a, const SequenceState& b);

  // Serves the sequences of this request alone from now on, or all again.
  void ServeOnly(std::optional<RequestId> request) { only_ = request; }
  // Nothing keeps the sequence out of steps.
  bool IsServed(const SequenceState& sequence) const {
    return !sequence.paused && !sequence.deferred &&
           (!only_.has_value() || sequence.spec.request == *only_);
  }
  // A sibling ahead of it computes the prompt that it will share. Only a sibling ahead counts,
  // because that one is certain to be computed without it.
  bool WaitsForSibling(const SequenceState& sequence) const;

  // ---- Fair shares ----

  // The tenant has less than half its share of all sequences, by weight: it should not feel how
  // many sequences the others have.
  bool IsBelowFairShare(const Tenant& tenant) const { return tenants_.IsBelowFairShare(tenant); }
  // The waiting sequence need not wait for a slot: its tenant has clearly less than its share of
  // the slots, and another one has more than its own.
  bool MayDisplace(const SequenceState& sequence) const;
  // The running sequence's tenant has more slots than its share, beyond `num_displaced` that it
  // gives up already.
  bool HasExtraSlot(const SequenceState& sequence, int32_t num_displaced) const;

  // ---- Charges ----

  // Charges the sequence's tenant for positions planned. One position is a decode, charged with
  // ChargeDecodes; more are a prompt, or recomputed at the price of one, as drafts are.
  void Charge(SequenceState& sequence, int32_t num_positions, int32_t num_drafts);
  // Charges for all decodes at once, because it changes the order of the queue.
  void ChargeDecodes();
  // Charges for processor time outside of steps, as for the tokens that steps compute in it. Does
  // nothing where the tenant has no sequence.
  void ChargeTime(const std::string& tenant, double seconds, const StepCost& cost);

  const Tenants& tenants() const { return tenants_; }

 private:
  const SchedulerOptions& options_;
  Tenants& tenants_;
  StateTable& table_;
  std::optional<RequestId> only_;
  std::vector<TenantShare*> uncharged_;  // with decodes in the step being planned
};

}  // namespace sluice
