#include "tests/orchestrator/scheduler/random_schedule.h"

#include <gtest/gtest.h>

#include <utility>

namespace sluice {
namespace {

// Goes on after the resumed tokens.
SoloRun RunAlone(const SequenceSpec& spec, const RopeLengthClass& rope_length_class) {
  SoloRun run = {.tokens = spec.prompt};
  run.tokens.insert(run.tokens.end(), spec.resumed_tokens.begin(), spec.resumed_tokens.end());
  const auto resumed = static_cast<int32_t>(spec.resumed_tokens.size());
  for (int32_t i = resumed; i < spec.max_new_tokens; ++i) {
    const TokenId token = NextToken(HashChain(run.tokens, rope_length_class, spec.adapter).back());
    run.tokens.push_back(token);
    if (std::count(spec.stop_tokens.begin(), spec.stop_tokens.end(), token) > 0) {
      run.reason = FinishReason::kStop;
      break;
    }
  }
  return run;
}

}  // namespace

void RandomSchedule::Operate(int num_operations) {
  for (int operation = 0; operation < num_operations; ++operation) {
    SCOPED_TRACE(::testing::Message() << "operation " << operation);
    ASSERT_NO_FATAL_FAILURE(RandomOperation());
    const absl::Status status = scheduler_.CheckIntegrity();
    ASSERT_TRUE(status.ok()) << status;
  }
}

void RandomSchedule::RandomOperation() {
  const int dice = Pick(1, 100);
  if (dice <= 4) {
    ASSERT_NO_FATAL_FAILURE(ChooseOne());
    ReturnSome(50);
  } else if (dice <= 22) {
    AddSequence();
  } else if (dice <= 58) {
    PlanStep();
  } else if (dice <= 86) {
    CommitOldest();
  } else if (dice <= 90) {
    CommitWrongly();
  } else if (dice <= 92) {
    FinishOne();
    ASSERT_NO_FATAL_FAILURE(PauseOrResumeOne());
  } else if (dice <= 95) {
    ASSERT_NO_FATAL_FAILURE(ForkOne());
    if (Chance(20)) policies_ = RandomPolicies();
    if (Chance(20)) {
      scheduler_.SetStepCost({.fixed = 0.01 * Pick(0, 3), .per_position = 0.002 * Pick(0, 3)});
    }
  } else if (dice <= 98) {
    ASSERT_NO_FATAL_FAILURE(Abandon());
  } else {
    Lose();
  }
}

// Keys of all lengths alike, of two kinds, or others at every length beyond some.
RopeLengthClass RandomSchedule::RandomLengths() {
  const int kind = Pick(1, 4), limit = Pick(1, 30);
  if (kind == 1) return [limit](int32_t length) { return length <= limit ? limit : 60; };
  if (kind == 2) return [limit](int32_t length) { return std::max(length, limit); };
  return nullptr;
}

SequenceSpec RandomSchedule::RandomSpec() {
  SequenceSpec spec = {.id = next_id_++};
  // The id of one that ended, perhaps with a step or a sibling that still knows it.
  const SequenceId old = spec.id - std::min<SequenceId>(spec.id, Pick(1, 10));
  if (Chance(30) && !clients_.contains(old)) spec.id = old;
  if (!clients_.empty() && Chance(50)) {
    const Client& other = RandomClient();
    spec.prompt = other.spec.prompt;
    spec.adapter = other.spec.adapter;
    if (Chance(90)) spec.prompt_of = other.spec.id;
  } else {
    if (Chance(25)) spec.adapter = std::string(1, static_cast<char>('p' + Pick(0, 4)));
    spec.prompt.resize(Pick(1, 20));
    for (TokenId& token : spec.prompt) token = Pick(0, 3);  // prompts often have common prefixes
  }
  spec.score_prompt = Chance(20);
  spec.max_new_tokens = spec.score_prompt && Chance(50) ? 0 : Pick(1, 20);
  spec.stop_tokens = {Pick(0, kFakeVocabulary - 1)};
  if (Chance(30)) spec.priority = Pick(-1, 1);
  spec.externally_sampled = Chance(30);
  spec.use_prefix_cache = Chance(80);
  if (Chance(20)) spec.cache_salt = "salt";
  if (Chance(70)) spec.max_drafts = Pick(1, kMostDrafts);
  spec.tenant = std::string(1, static_cast<char>('a' + Pick(0, 3) * Pick(0, 1)));
  return spec;
}

// As far as steps ahead and drafts can go before an end is known.
std::vector<TokenId> RandomSchedule::Endless(const SoloRun& solo,
                                             const std::string& adapter) const {
  std::vector<TokenId> tokens = solo.tokens;
  for (int i = 0; i < std::max(options_.steps_ahead, kMostDrafts); ++i) {
    tokens.push_back(NextToken(HashChain(tokens, options_.rope_length_class, adapter).back()));
  }
  return tokens;
}

void RandomSchedule::AddSequence() {
  Client client = {.serial = next_serial_++, .spec = RandomSpec()};
  client.solo = RunAlone(client.spec, options_.rope_length_class);
  client.endless = Endless(client.solo, client.spec.adapter);
  const auto num_prompt = static_cast<int>(client.spec.prompt.size());
  const int num_generated = static_cast<int>(client.solo.tokens.size()) - num_prompt;
  client.tokens = client.spec.prompt;
  if (num_generated > 1 && Chance(15)) {
    const auto begin = client.solo.tokens.begin() + num_prompt;
    client.spec.resumed_tokens.assign(begin, begin + Pick(1, num_generated - 1));
    client.tokens.insert(client.tokens.end(), client.spec.resumed_tokens.begin(),
                         client.spec.resumed_tokens.end());
  }
  const int capacity = kv_cache_.num_blocks * kv_cache_.block_size;
  const int needed = num_prompt + std::max(client.spec.max_new_tokens - 1, 0);
  const absl::Status status = scheduler_.Add(client.spec);
  if (needed > capacity) {
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  } else if (!status.ok()) {
    ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    ++coverage_.full_queues;
  } else {
    coverage_.resumed += !client.spec.resumed_tokens.empty();
    clients_.emplace(client.spec.id, client);
  }
}

std::shared_ptr<const TenantPolicies> RandomSchedule::RandomPolicies() {
  TenantPolicies policies;
  for (const char* name : {"a", "b", "c"}) {
    policies.named[name] = {.weight = 0.5 * Pick(1, 6),
                            .max_running_sequences = Pick(1, 8),
                            .max_waiting_sequences = Pick(1, 20)};
  }
  return std::make_shared<const TenantPolicies>(policies);
}

void RandomSchedule::ForkOne() {
  if (clients_.empty()) return;
  const Client& parent = RandomClient();
  const auto num_prompt = std::ssize(parent.spec.prompt);
  const ForkSpec fork = {
      .from = parent.spec.id,
      .to = next_id_++,
      .num_tokens = Pick(static_cast<int>(num_prompt), static_cast<int>(parent.tokens.size())),
      .continuation = std::vector<TokenId>(Pick(0, 2), Pick(0, kFakeVocabulary - 1))};
  Client child = {.serial = next_serial_++, .spec = parent.spec};
  child.spec.id = fork.to;
  child.spec.score_prompt = false;
  child.tokens.assign(parent.tokens.begin(), parent.tokens.begin() + fork.num_tokens);
  child.tokens.insert(child.tokens.end(), fork.continuation.begin(), fork.continuation.end());
  child.spec.resumed_tokens.assign(child.tokens.begin() + num_prompt, child.tokens.end());
  const absl::Status status = scheduler_.Fork(fork);
  if (AlreadyFinished(child.spec).has_value() || child.spec.max_new_tokens == 0) {
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return;
  }
  ASSERT_TRUE(status.ok()) << status;
  child.solo = RunAlone(child.spec, options_.rope_length_class);
  child.endless = Endless(child.solo, child.spec.adapter);
  clients_.emplace(fork.to, std::move(child));
  ++coverage_.forks;
}

void RandomSchedule::PlanStep() {
  std::optional<Step> step = scheduler_.Plan();
  if (!step.has_value()) {
    // Somebody can always go on when nothing is under way.
    ASSERT_TRUE(!SomebodyCanGoOn() || !in_flight_.empty()) << "the scheduler is stuck";
    return;
  }
  ++coverage_.steps;
  ASSERT_NO_FATAL_FAILURE(CheckShape(*step));
  InFlight in_flight = {.id = step->id};
  std::vector<std::vector<uint64_t>> chains;
  for (const Segment& segment : step->segments) {
    const Client& client = clients_.at(segment.sequence);
    in_flight.serials.push_back(client.serial);
    for (const Row& row : segment.rows) {
      if (row.kind == RowKind::kSample) in_flight.choosing_rows.push_back(in_flight.num_rows);
      ++in_flight.num_rows;
    }
    const auto end = client.endless.begin() + segment.sequence_length;
    chains.push_back(
        HashChain({client.endless.begin(), end}, options_.rope_length_class, client.spec.adapter));
    coverage_.adapted += segment.adapter_slot >= 0;
    coverage_.ahead += segment.chosen_by.has_value();
    coverage_.other_lengths += options_.rope_length_class != nullptr &&
                               segment.first_position == 0 &&
                               client.tokens.size() > client.spec.prompt.size();
  }
  in_flight_.push_back(in_flight);
  replica_.Submit(*std::move(step), std::move(chains));
}

void RandomSchedule::CommitOldest() {
  if (in_flight_.empty()) return;
  const InFlight step = in_flight_.front();
  absl::StatusOr<std::vector<TokenId>> rows = replica_.ExecuteThrough(step.id);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(std::ssize(*rows), step.num_rows);
  std::vector<int32_t> deferred;
  for (const int32_t row : step.choosing_rows) {
    if (!Chance(5)) continue;
    deferred.push_back(row);
    (*rows)[row] = 0;  // as the sampler has it
  }
  const absl::StatusOr<StepOutcome> outcome = scheduler_.Commit(step.id, *rows, deferred);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  in_flight_.pop_front();
  coverage_.surplus += std::ssize(*rows) - std::ssize(outcome->rows);
  ASSERT_NO_FATAL_FAILURE(CheckRows(*outcome, *rows));
  for (const SequenceId id : outcome->deferred) {
    ASSERT_FALSE(std::exchange(clients_.at(id).sits_out, true)) << "it sits out already";
    ++coverage_.deferred;
    for (InFlight& other : in_flight_) {  // what was planned behind it is dropped
      std::replace(other.serials.begin(), other.serials.end(), clients_.at(id).serial, uint64_t{0});
    }
  }
  for (const FinishedSequence& finished : outcome->finished) {
    ASSERT_NO_FATAL_FAILURE(CheckFinished(finished));
  }
}

void RandomSchedule::ChooseOne() {
  for (auto& [id, client] : clients_) {
    if (client.choice.has_value() && Chance(50)) return Choose(client);
  }
}

void RandomSchedule::Choose(Client& client) {
  const SequenceId id = client.spec.id;
  const TokenId token = *std::exchange(client.choice, std::nullopt);
  client.tokens.push_back(token);
  ++coverage_.choices;
  coverage_.displaced += scheduler_.kv_cache().BlockTable(id).empty();
  if (client.tokens.size() < client.solo.tokens.size()) {
    const absl::Status status = scheduler_.Append(id, token);
    ASSERT_TRUE(status.ok()) << status;
    return;
  }
  ASSERT_EQ(scheduler_.Append(id, token).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(client.tokens, client.solo.tokens);
  const auto finished = scheduler_.Finish(id, client.solo.reason);
  ASSERT_TRUE(finished.ok()) << finished.status();
  ++coverage_.finished;
  Forget(*finished);
}

void RandomSchedule::ReturnSome(int percent) {
  for (auto& [id, client] : clients_) {
    if (!client.sits_out || !Chance(percent)) continue;
    scheduler_.Return(id);
    client.sits_out = false;
  }
}

void RandomSchedule::PauseOrResumeOne() {
  if (clients_.empty()) return;
  Client& client = RandomClient();
  client.paused = !client.paused;
  if (client.paused) {
    scheduler_.Pause(client.spec.id);
    ++coverage_.pauses;
  } else {
    scheduler_.Resume(client.spec.id);
  }
  const absl::StatusOr<SequenceReport> report = scheduler_.Report(client.spec.id);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->phase == SequencePhase::kPaused, client.paused);
}

void RandomSchedule::CommitWrongly() {
  ASSERT_FALSE(scheduler_.Commit(last_step_ + 1, {}).ok());
  if (in_flight_.empty()) return;
  const std::vector<TokenId> too_many(in_flight_.front().num_rows + 1, 0);
  ASSERT_EQ(scheduler_.Commit(in_flight_.front().id, too_many).status().code(),
            absl::StatusCode::kInvalidArgument);
  if (in_flight_.size() == 1) return;
  const std::vector<TokenId> early(in_flight_.back().num_rows, 0);
  ASSERT_EQ(scheduler_.Commit(in_flight_.back().id, early).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ++coverage_.early_commits_refused;
}

void RandomSchedule::FinishOne() {
  if (clients_.empty()) return;
  const Client& client = RandomClient();
  const SequenceId id = client.spec.id;
  for (const InFlight& step : in_flight_) {
    coverage_.ended_in_flight +=
        std::count(step.serials.begin(), step.serials.end(), client.serial);
  }
  const auto finished = scheduler_.Finish(id, FinishReason::kCancelled);
  ASSERT_TRUE(finished.ok()) << finished.status();
  Forget(*finished);
}

// Every step in flight is lost while the blocks stand; the stages may have got to any of them.
void RandomSchedule::Abandon() {
  for (const InFlight& step : in_flight_) {
    replica_.Spoil(step.id);
    ++coverage_.abandoned;
  }
  if (!in_flight_.empty() && Chance(70)) {
    const int last = Pick(0, static_cast<int>(in_flight_.size()) - 1);
    ASSERT_TRUE(replica_.ExecuteThrough(in_flight_[last].id).ok());
  }
  replica_.Drop();
  scheduler_.AbandonSteps();
  in_flight_.clear();
}

// The replica may come back with another number of blocks, too few for some.
void RandomSchedule::Lose() {
  if (Chance(50)) {
    scheduler_.Reset();
  } else {
    kv_cache_.num_blocks = Pick(3, 24);
    if (kv_cache_.num_state_slots > 0) kv_cache_.num_state_slots = Pick(2, 20);
    for (const SequenceId id :
         scheduler_.ResetWithBlocks(kv_cache_.num_blocks, kv_cache_.num_state_slots)) {
      const auto finished = scheduler_.Finish(id, FinishReason::kCancelled);
      ASSERT_TRUE(finished.ok()) << finished.status();
      Forget(*finished);
      ++coverage_.too_large;
    }
  }
  replica_.Lose(kv_cache_.num_blocks, kv_cache_.num_state_slots);
  for (const InFlight& step : in_flight_) {
    const std::vector<TokenId> late(step.num_rows, 0);
    ASSERT_EQ(scheduler_.Commit(step.id, late).status().code(), absl::StatusCode::kNotFound);
  }
  in_flight_.clear();
  ++coverage_.resets;
}

// Everything that is left ends within the steps that it could take if it were computed alone,
// one token at a time and from the start for each of its tokens.
void RandomSchedule::Drain() {
  int64_t bound = 100;
  for (auto& [id, client] : clients_) {
    scheduler_.Resume(id);
    client.paused = false;
    const int64_t positions = std::ssize(client.solo.tokens);
    bound += positions * positions;
  }
  for (int64_t step = 0; !clients_.empty(); ++step) {
    ASSERT_LT(step, bound) << clients_.size() << " sequences don't come to an end";
    ReturnSome(100);
    ASSERT_NO_FATAL_FAILURE(PlanStep());
    if (Chance(70)) {
      ASSERT_NO_FATAL_FAILURE(CommitOldest());
    }
    ASSERT_NO_FATAL_FAILURE(ChooseOne());
  }
  while (!in_flight_.empty()) ASSERT_NO_FATAL_FAILURE(CommitOldest());
  ASSERT_EQ(scheduler_.kv_cache().num_available_blocks(), kv_cache_.num_blocks);
  ASSERT_EQ(scheduler_.kv_cache().num_available_states(), kv_cache_.num_state_slots);
  ASSERT_EQ(scheduler_.statistics().running_sequences, 0);
  ASSERT_EQ(scheduler_.statistics().waiting_sequences, 0);
  ASSERT_TRUE(scheduler_.CheckIntegrity().ok());
}

}  // namespace sluice
