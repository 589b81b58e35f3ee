// Which sequences hold blocks of the KV cache: what each has to reserve, and which sequences are
// preempted where blocks or slots are missing. README.md states the policy. Not thread-safe.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "orchestrator/kv_cache/kv_cache.h"
#include "orchestrator/scheduler/admission_queue.h"
#include "orchestrator/scheduler/scheduler_options.h"
#include "orchestrator/scheduler/state_table.h"
#include "orchestrator/scheduler/steps_in_flight.h"

namespace sluice {

class BlockBudget {
 public:
  // Borrows all of them.
  BlockBudget(const SchedulerOptions& options, KvCache& kv_cache, StateTable& table,
              StepsInFlight& flights, const AdmissionQueue& admission)
      : options_(options),
        kv_cache_(kv_cache),
        table_(table),
        flights_(flights),
        admission_(admission) {}

  // A step begins to be planned: preempts sequences that await a choice in slots that their tenant
  // needs for others.
  void BeginStep();
  // In the step being planned a sequence lacks blocks or a slot that sequences in flight could give
  // up. None of these goes ahead then, so that they become free to be preempted.
  bool contended() const { return contended_; }

  // The waiting sequence need not wait for a slot or blocks: others can be preempted for it.
  bool IsUrgent(const SequenceState& sequence) const;
  // Makes a waiting sequence run, with blocks for all the tokens it has, so that a prompt in
  // progress never runs out of blocks. Preempts sequences of lower priority, and those of tenants
  // with more than their share of the slots while its own has less. False, with nothing changed:
  // there is no room. REQUIRES: StateTable::HasAdapterSlot.
  bool Admit(SequenceState& sequence);
  // Gives a running sequence blocks to write its positions up to `num_positions` into; preempts
  // sequences behind it. False: there is no room.
  bool ReserveBlocks(SequenceState& sequence, int32_t num_positions);
  // Shortens a draft to what fits into blocks that no sequence has or waits for, and reserves
  // these. REQUIRES: the sequence has a block of its own for the position before.
  void ReserveForDraft(SequenceState& sequence, Tokens& draft);
  // Makes a new sequence run with the first `num_positions` that `from` has computed, where these
  // are of use to it and there is a slot. False, with nothing changed, otherwise.
  bool RunFork(const SequenceState& from, SequenceState& to, int32_t num_positions);

  // Takes the blocks of a running sequence. It waits again, or is parked, and keeps its tokens.
  void ReleaseAndRequeue(SequenceState& sequence, RecomputeReason reason);

  // Positions that a new sequence would compute before it chooses a token.
  int32_t NumToCompute(const SequenceSpec& spec) const;

  // For the next step, since they were last taken.
  std::vector<BlockCopy> TakeCopies() { return std::exchange(copies_, {}); }
  std::vector<StateCopy> TakeStateCopies() { return std::exchange(state_copies_, {}); }
  std::vector<SequenceId> TakePreempted() { return std::exchange(preempted_, {}); }

  uint64_t num_started() const { return num_started_; }
  uint64_t num_preemptions() const { return num_preemptions_; }

 private:
  // What a sequence needs to write positions [first, end): blocks, and slots for states.
  struct BlockDemand {
    SequenceId sequence = 0;
    int32_t first = 0;
    int32_t end = 0;
    int32_t slots = 0;  // 1 for a sequence that is to run
    // A sequence that is to run in a slot that another tenant has beyond its share; else null.
    const SequenceState* displacing = nullptr;
  };
  // The first positions of a sequence that others have computed.
  struct CachedPrefix {
    int32_t num_positions = 0;
    bool from_sibling = false;
  };

  bool MayFindRoom(const SequenceState& sequence) const;
  CachedPrefix TakePrefix(SequenceState& sequence);
  static void CountPrefix(SequenceState& sequence, const CachedPrefix& prefix);
  void Reserve(SequenceState& sequence, int32_t num_positions);
  // What preempting sequences gives back.
  struct FreedRoom {
    int32_t blocks = 0;
    int32_t states = 0;
    int64_t slots = 0;  // in which they run
  };
  bool IsMet(const BlockDemand& demand, const FreedRoom& freed) const;
  bool MakeRoom(const BlockDemand& demand, const QueuePosition& below);
  std::vector<SequenceState*> Victims(const BlockDemand& demand, const QueuePosition& below,
                                      bool& others_in_flight) const;
  void Preempt(SequenceState& sequence);

  const SchedulerOptions& options_;
  KvCache& kv_cache_;
  StateTable& table_;
  StepsInFlight& flights_;
  const AdmissionQueue& admission_;
  bool contended_ = false;
  std::vector<BlockCopy> copies_;
  std::vector<StateCopy> state_copies_;
  std::vector<SequenceId> preempted_;
  uint64_t num_started_ = 0;
  uint64_t num_preemptions_ = 0;
};

}  // namespace sluice
