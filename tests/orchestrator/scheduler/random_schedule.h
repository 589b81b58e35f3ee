// A small, tight scheduler at which operations come at random, with a fake replica behind it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "orchestrator/scheduler/scheduler.h"
#include "tests/orchestrator/scheduler/fake_replica.h"
#include "tests/orchestrator/scheduler/random_drafts.h"

namespace sluice {

// What a sequence comes to when nothing disturbs it.
struct SoloRun {
  std::vector<TokenId> tokens;  // prompt and everything generated
  FinishReason reason = FinishReason::kLength;
};

// How often the schedules went through what they are meant to go through.
struct Coverage {
  int64_t steps = 0;
  int64_t finished = 0;
  int64_t preemptions = 0;
  int64_t shared_positions = 0;
  int64_t cached_positions = 0;
  int64_t copied_blocks = 0;
  int64_t evicted_blocks = 0;
  int64_t forks = 0;
  int64_t abandoned = 0;
  int64_t pauses = 0;
  int64_t resets = 0;
  int64_t too_large = 0;  // for the blocks that a replica came back with
  int64_t ended_in_flight = 0;
  int64_t resumed = 0;
  int64_t scored_rows = 0;
  int64_t early_commits_refused = 0;
  int64_t full_queues = 0;
  int64_t ahead = 0;         // segments whose token was not known yet
  int64_t chunks_ahead = 0;  // segments of prompts while others of them were in flight
  int64_t surplus = 0;       // rows of sequences that had ended when they came
  int64_t drafted = 0;       // tokens computed as drafts, and those of them that were right
  int64_t accepted_drafts = 0;
  int64_t other_lengths = 0;  // computed from the start again where lengths matter
  int64_t choices = 0;        // made outside
  int64_t deferred = 0;       // sequences that sat out because a row had no token yet
  int64_t displaced = 0;      // sequences that had lost their blocks by then
  // Of schedules with states: copies, and positions behind which a state was found or forked.
  int64_t copied_states = 0;
  int64_t found_by_state = 0;
  int64_t forked_by_state = 0;
  int64_t adapted = 0;  // segments with an adapter
};

class RandomSchedule {
 public:
  RandomSchedule(uint32_t seed, Coverage& coverage)
      : random_(seed),
        coverage_(coverage),
        kv_cache_{.num_blocks = Pick(3, 24),
                  .block_size = Pick(1, 5),
                  .num_state_slots = Chance(50) ? Pick(2, 20) : 0},
        options_{.max_tokens_per_step = Pick(1, 24),
                 .max_sequences_per_step = Pick(1, 6),
                 .max_queued_sequences = Pick(2, 40),
                 .max_positions = 60,
                 .max_inflight_steps = Pick(1, 4),
                 .steps_ahead = Pick(0, 2),
                 .num_adapter_slots = Pick(1, 3),
                 .rope_length_class = RandomLengths(),
                 .tenant_policies = [this] { return policies_; },
                 .drafts = Pick(0, 1) == 1 ? &drafts_ : nullptr},
        scheduler_(options_, kv_cache_),
        replica_(kv_cache_.num_blocks, kv_cache_.block_size, options_.rope_length_class,
                 kv_cache_.num_state_slots) {}

  // Does so many operations, with the integrity checked after each.
  void Operate(int num_operations);
  // Lets what is left end.
  void Drain();

  const Scheduler& scheduler() const { return scheduler_; }

 private:
  struct Client {
    uint64_t serial = 0;  // tells it from others that have or had its id
    SequenceSpec spec;
    SoloRun solo;
    std::vector<TokenId> tokens;  // prompt, resumed and accepted so far
    int32_t scored = 0;           // prompt tokens whose score arrived
    bool paused = false;
    bool sits_out = false;          // until it returns
    std::optional<TokenId> choice;  // that it awaits; the same token, but from outside
    // The solo run, and what would follow if it did not end.
    std::vector<TokenId> endless;
  };
  struct InFlight {
    StepId id = 0;
    int32_t num_rows = 0;
    std::vector<int32_t> choosing_rows;
    std::vector<uint64_t> serials;
  };

  static constexpr int kMostDrafts = 6;

  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool Chance(int percent) { return Pick(1, 100) <= percent; }

  // What happens (random_schedule.cc).
  void RandomOperation();
  RopeLengthClass RandomLengths();
  SequenceSpec RandomSpec();
  std::shared_ptr<const TenantPolicies> RandomPolicies();
  std::vector<TokenId> Endless(const SoloRun& solo, const std::string& adapter) const;
  void AddSequence();
  void ForkOne();
  void PlanStep();
  void CommitOldest();
  void ChooseOne();
  void Choose(Client& client);
  void PauseOrResumeOne();
  void ReturnSome(int percent);
  void CommitWrongly();
  void FinishOne();
  void Abandon();
  void Lose();
  Client& RandomClient() {
    return std::next(clients_.begin(), Pick(0, static_cast<int>(clients_.size()) - 1))->second;
  }

  // What must hold (random_schedule_checks.cc).
  bool SomebodyCanGoOn() const;
  void CheckShape(const Step& step);
  void CheckRows(const StepOutcome& outcome, const std::vector<TokenId>& rows);
  void CheckFinished(const FinishedSequence& finished);
  void Forget(const FinishedSequence& finished);

  std::mt19937 random_;
  Coverage& coverage_;
  std::shared_ptr<const TenantPolicies> policies_;
  RandomDrafts drafts_{static_cast<uint32_t>(Pick(0, 1 << 30)),
                       [this](SequenceId id) { return clients_.at(id).endless; }};
  KvCacheOptions kv_cache_;  // as the replica has it now
  const SchedulerOptions options_;
  Scheduler scheduler_;
  FakeReplica replica_;
  std::map<SequenceId, Client> clients_;  // those alive
  std::deque<InFlight> in_flight_;
  SequenceId next_id_ = 1;
  uint64_t next_serial_ = 1;
  StepId last_step_ = 0;
};

}  // namespace sluice
