// A million random operations on small, tight schedulers, with a fake replica behind them:
// whatever is added, cancelled, failed, preempted, shared or lost meanwhile, every sequence ends
// with the tokens of its solo run, and every block comes back.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/scheduler/scheduler.h"
#include "tests/orchestrator/scheduler/fake_replica.h"
#include "tests/orchestrator/scheduler/random_drafts.h"

namespace sluice {
namespace {

// What a sequence comes to when nothing disturbs it.
struct SoloRun {
  std::vector<TokenId> tokens;  // prompt and everything generated
  FinishReason reason = FinishReason::kLength;
};

// Goes on after the resumed tokens.
SoloRun RunAlone(const SequenceSpec& spec, const LongestLike& longest_like) {
  SoloRun run = {.tokens = spec.prompt};
  run.tokens.insert(run.tokens.end(), spec.resumed_tokens.begin(), spec.resumed_tokens.end());
  const auto resumed = static_cast<int32_t>(spec.resumed_tokens.size());
  for (int32_t i = resumed; i < spec.max_new_tokens; ++i) {
    const TokenId token = NextToken(HashChain(run.tokens, longest_like).back());
    run.tokens.push_back(token);
    if (std::count(spec.stop_tokens.begin(), spec.stop_tokens.end(), token) > 0) {
      run.reason = FinishReason::kStop;
      break;
    }
  }
  return run;
}

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
  int64_t displaced = 0;      // sequences that had lost their blocks by then
};

class RandomSchedule {
 public:
  RandomSchedule(uint32_t seed, Coverage& coverage)
      : random_(seed),
        coverage_(coverage),
        kv_cache_{.num_blocks = Pick(3, 24), .block_size = Pick(1, 5)},
        options_{.max_tokens_per_step = Pick(1, 24),
                 .max_sequences_per_step = Pick(1, 6),
                 .max_queued_sequences = Pick(2, 40),
                 .max_positions = 60,
                 .max_inflight_steps = Pick(1, 4),
                 .steps_ahead = Pick(0, 2),
                 .longest_like = RandomLengths(),
                 .tenant_policies = [this] { return policies_; },
                 .drafts = Pick(0, 1) == 1 ? &drafts_ : nullptr},
        scheduler_(options_, kv_cache_),
        replica_(kv_cache_.num_blocks, kv_cache_.block_size, options_.longest_like) {}

  void Run(int num_operations) {
    for (int operation = 0; operation < num_operations; ++operation) {
      SCOPED_TRACE(::testing::Message() << "operation " << operation);
      ASSERT_NO_FATAL_FAILURE(RandomOperation());
      const absl::Status status = scheduler_.CheckIntegrity();
      ASSERT_TRUE(status.ok()) << status;
    }
    ASSERT_NO_FATAL_FAILURE(Drain());
  }

 private:
  struct Client {
    uint64_t serial = 0;  // tells it from others that have or had its id
    SequenceSpec spec;
    SoloRun solo;
    std::vector<TokenId> tokens;  // prompt, resumed and accepted so far
    int32_t scored = 0;           // prompt tokens whose score arrived
    bool paused = false;
    std::optional<TokenId> choice;  // that it awaits; the same token, but from outside
    // The solo run, and what would follow if it did not end.
    std::vector<TokenId> endless;
  };
  struct InFlight {
    StepId id = 0;
    int32_t num_rows = 0;
    std::vector<uint64_t> serials;
  };

  static constexpr int kMostDrafts = 6;

  // As far as steps ahead and drafts can go before an end is known.
  std::vector<TokenId> Endless(const SoloRun& solo) const {
    std::vector<TokenId> tokens = solo.tokens;
    for (int i = 0; i < std::max(options_.steps_ahead, kMostDrafts); ++i) {
      tokens.push_back(NextToken(HashChain(tokens, options_.longest_like).back()));
    }
    return tokens;
  }

  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool Chance(int percent) { return Pick(1, 100) <= percent; }

  // Keys of all lengths alike, of two kinds, or others at every length beyond some.
  LongestLike RandomLengths() {
    const int kind = Pick(1, 4), limit = Pick(1, 30);
    if (kind == 1) return [limit](int32_t length) { return length <= limit ? limit : 60; };
    if (kind == 2) return [limit](int32_t length) { return std::max(length, limit); };
    return nullptr;
  }

  void RandomOperation() {
    const int dice = Pick(1, 100);
    if (dice <= 4) {
      ASSERT_NO_FATAL_FAILURE(ChooseOne());
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

  SequenceSpec RandomSpec() {
    SequenceSpec spec = {.id = next_id_++};
    // The id of one that ended, perhaps with a step or a sibling that still knows it.
    const SequenceId old = spec.id - std::min<SequenceId>(spec.id, Pick(1, 10));
    if (Chance(30) && !clients_.contains(old)) spec.id = old;
    if (!clients_.empty() && Chance(50)) {
      const Client& other = RandomClient();
      spec.prompt = other.spec.prompt;
      if (Chance(90)) spec.prompt_of = other.spec.id;
    } else {
      spec.prompt.resize(Pick(1, 20));
      for (TokenId& token : spec.prompt) token = Pick(0, 3);  // prompts often have common prefixes
    }
    spec.score_prompt = Chance(20);
    spec.max_new_tokens = spec.score_prompt && Chance(50) ? 0 : Pick(1, 20);
    spec.stop_tokens = {Pick(0, kFakeVocabulary - 1)};
    if (Chance(30)) spec.priority = Pick(-1, 1);
    spec.chosen_outside = Chance(30);
    spec.use_prefix_cache = Chance(80);
    if (Chance(20)) spec.cache_salt = "salt";
    if (Chance(70)) spec.max_drafts = Pick(1, kMostDrafts);
    spec.tenant = std::string(1, static_cast<char>('a' + Pick(0, 3) * Pick(0, 1)));
    return spec;
  }

  void AddSequence() {
    Client client = {.serial = next_serial_++, .spec = RandomSpec()};
    client.solo = RunAlone(client.spec, options_.longest_like);
    client.endless = Endless(client.solo);
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

  std::shared_ptr<const TenantPolicies> RandomPolicies() {
    TenantPolicies policies;
    for (const char* name : {"a", "b", "c"}) {
      policies.named[name] = {.weight = 0.5 * Pick(1, 6),
                              .max_running_sequences = Pick(1, 8),
                              .max_waiting_sequences = Pick(1, 20)};
    }
    return std::make_shared<const TenantPolicies>(policies);
  }

  void ForkOne() {
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
    child.solo = RunAlone(child.spec, options_.longest_like);
    child.endless = Endless(child.solo);
    clients_.emplace(fork.to, std::move(child));
    ++coverage_.forks;
  }

  // Whoever awaits a choice gives way to those of its priority and above.
  bool SomebodyCanGoOn() const {
    std::optional<int32_t> lowest;
    for (const auto& [id, client] : clients_) {
      if (client.paused || client.choice.has_value()) continue;
      lowest = std::min(lowest.value_or(client.spec.priority), client.spec.priority);
    }
    return lowest.has_value() &&
           std::none_of(clients_.begin(), clients_.end(), [&](const auto& entry) {
             return entry.second.choice.has_value() && entry.second.spec.priority > *lowest;
           });
  }

  void PlanStep() {
    std::optional<Step> step = scheduler_.Plan();
    if (!step.has_value()) {
      // Somebody can always go on when nothing is under way.
      ASSERT_TRUE(!SomebodyCanGoOn() || !in_flight_.empty()) << "the scheduler is stuck";
      return;
    }
    ++coverage_.steps;
    ASSERT_NO_FATAL_FAILURE(CheckShape(*step));
    InFlight in_flight = {.id = step->id, .num_rows = step->num_rows()};
    std::vector<std::vector<uint64_t>> chains;
    for (const Segment& segment : step->segments) {
      const Client& client = clients_.at(segment.sequence);
      in_flight.serials.push_back(client.serial);
      const auto end = client.endless.begin() + segment.sequence_length;
      chains.push_back(HashChain({client.endless.begin(), end}, options_.longest_like));
      coverage_.ahead += segment.chosen_by.has_value();
      coverage_.other_lengths += options_.longest_like != nullptr && segment.first_position == 0 &&
                                 client.tokens.size() > client.spec.prompt.size();
    }
    in_flight_.push_back(in_flight);
    replica_.Submit(*std::move(step), std::move(chains));
  }

  void CheckShape(const Step& step) {
    ASSERT_GT(step.id, last_step_);
    last_step_ = step.id;
    ASSERT_FALSE(step.segments.empty());
    ASSERT_LE(step.num_tokens(), options_.max_tokens_per_step);
    ASSERT_LE(std::ssize(step.segments), options_.max_sequences_per_step);
    std::map<uint64_t, int> busy;  // by serial, the steps in flight
    for (const InFlight& other : in_flight_) {
      for (const uint64_t serial : other.serials) ++busy[serial];
    }
    std::set<uint64_t> in_this;
    for (const Segment& segment : step.segments) {
      const Client& client = clients_.at(segment.sequence);
      ASSERT_TRUE(in_this.insert(client.serial).second) << "twice in a step";
      const int num_steps = busy[client.serial];
      ASSERT_TRUE(num_steps == 0 || options_.steps_ahead > 0) << "in two steps at a time";
      ASSERT_FALSE(client.paused);
      const std::vector<TokenId>& tokens = client.tokens;
      const auto end = segment.first_position + std::ssize(segment.tokens);
      ASSERT_GE(segment.sequence_length, std::ssize(tokens));
      ASSERT_LE(segment.sequence_length, std::ssize(tokens) + num_steps + segment.num_drafts);
      ASSERT_LE(segment.num_drafts, num_steps == 0 ? client.spec.max_drafts : 0);
      coverage_.drafted += segment.num_drafts;
      ASSERT_LE(segment.sequence_length, std::ssize(client.endless));
      ASSERT_GE((segment.first_block + std::ssize(segment.blocks)) * kv_cache_.block_size, end);
      coverage_.chunks_ahead += num_steps > 0 && segment.tokens.size() > 1;
      if (segment.chosen_by.has_value()) {
        ASSERT_EQ(std::ssize(segment.tokens), 1);
        ASSERT_EQ(end, segment.sequence_length);
        ASSERT_GT(end, std::ssize(tokens)) << "the token is known";
        continue;
      }
      ASSERT_LE(end - segment.num_drafts, std::ssize(tokens));
      ASSERT_TRUE(std::equal(segment.tokens.begin(), segment.tokens.end() - segment.num_drafts,
                             tokens.begin() + segment.first_position));
    }
  }

  void CommitOldest() {
    if (in_flight_.empty()) return;
    const InFlight step = in_flight_.front();
    const absl::StatusOr<std::vector<TokenId>> rows = replica_.ExecuteThrough(step.id);
    ASSERT_TRUE(rows.ok()) << rows.status();
    ASSERT_EQ(std::ssize(*rows), step.num_rows);
    const absl::StatusOr<StepOutcome> outcome = scheduler_.Commit(step.id, *rows);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    in_flight_.pop_front();
    coverage_.surplus += std::ssize(*rows) - std::ssize(outcome->rows);
    for (const AcceptedRow& row : outcome->rows) {
      ASSERT_TRUE(clients_.contains(row.sequence)) << "a row of a sequence that ended";
      Client& client = clients_.at(row.sequence);
      if (row.kind == RowKind::kScore) {
        ASSERT_EQ(row.position, ++client.scored) << "scores out of order, twice or missing";
        ASSERT_EQ(row.token, client.spec.prompt.at(row.position));
        ++coverage_.scored_rows;
      } else {
        ASSERT_EQ(row.position, std::ssize(client.tokens));
        ASSERT_EQ(row.token, rows->at(row.row));
        ASSERT_FALSE(client.choice.has_value()) << "chosen twice";
        if (client.spec.chosen_outside) {
          client.choice = row.token;
        } else {
          client.tokens.push_back(row.token);
        }
      }
    }
    for (const FinishedSequence& finished : outcome->finished) {
      ASSERT_NO_FATAL_FAILURE(CheckFinished(finished));
    }
  }

  void ChooseOne() {
    for (auto& [id, client] : clients_) {
      if (client.choice.has_value() && Chance(50)) return Choose(client);
    }
  }

  void Choose(Client& client) {
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

  void CheckFinished(const FinishedSequence& finished) {
    const Client& client = clients_.at(finished.sequence);
    ASSERT_EQ(client.tokens, client.solo.tokens);
    ASSERT_EQ(finished.reason, client.solo.reason);
    const auto num_prompt = std::ssize(client.spec.prompt);
    ASSERT_EQ(client.scored, client.spec.score_prompt ? num_prompt - 1 : 0);
    ASSERT_EQ(finished.usage.prompt_tokens, num_prompt);
    ASSERT_EQ(finished.usage.generated_tokens, std::ssize(client.tokens) - num_prompt);
    const int64_t positions = std::ssize(client.tokens) - (client.spec.max_new_tokens > 0 ? 1 : 0);
    const SequenceUsage& usage = finished.usage;
    ASSERT_GE(usage.computed_positions + usage.shared_positions + usage.cached_positions,
              positions);
    ++coverage_.finished;
    Forget(finished);
  }

  void Forget(const FinishedSequence& finished) {
    coverage_.preemptions += finished.usage.preemptions;
    coverage_.shared_positions += finished.usage.shared_positions;
    coverage_.cached_positions += finished.usage.cached_positions;
    coverage_.copied_blocks += finished.usage.copied_blocks;
    coverage_.evicted_blocks += finished.usage.evicted_blocks;
    coverage_.accepted_drafts += finished.usage.accepted_drafts;
    clients_.erase(finished.sequence);
  }

  void PauseOrResumeOne() {
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

  void CommitWrongly() {
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

  void FinishOne() {
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
  void Abandon() {
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

  void Lose() {
    scheduler_.Reset();
    replica_.Lose();
    for (const InFlight& step : in_flight_) {
      const std::vector<TokenId> late(step.num_rows, 0);
      ASSERT_EQ(scheduler_.Commit(step.id, late).status().code(), absl::StatusCode::kNotFound);
    }
    in_flight_.clear();
    ++coverage_.resets;
  }

  // Everything that is left ends within the steps that it could take if it were computed alone,
  // one token at a time and from the start for each of its tokens.
  void Drain() {
    int64_t bound = 100;
    for (auto& [id, client] : clients_) {
      scheduler_.Resume(id);
      client.paused = false;
      const int64_t positions = std::ssize(client.solo.tokens);
      bound += positions * positions;
    }
    for (int64_t step = 0; !clients_.empty(); ++step) {
      ASSERT_LT(step, bound) << clients_.size() << " sequences don't come to an end";
      ASSERT_NO_FATAL_FAILURE(PlanStep());
      if (Chance(70)) {
        ASSERT_NO_FATAL_FAILURE(CommitOldest());
      }
      ASSERT_NO_FATAL_FAILURE(ChooseOne());
    }
    while (!in_flight_.empty()) ASSERT_NO_FATAL_FAILURE(CommitOldest());
    ASSERT_EQ(scheduler_.kv_cache().num_available_blocks(), kv_cache_.num_blocks);
    ASSERT_EQ(scheduler_.statistics().running_sequences, 0);
    ASSERT_EQ(scheduler_.statistics().waiting_sequences, 0);
    ASSERT_TRUE(scheduler_.CheckIntegrity().ok());
  }

  Client& RandomClient() {
    return std::next(clients_.begin(), Pick(0, static_cast<int>(clients_.size()) - 1))->second;
  }

  std::mt19937 random_;
  Coverage& coverage_;
  std::shared_ptr<const TenantPolicies> policies_;
  RandomDrafts drafts_{static_cast<uint32_t>(Pick(0, 1 << 30)),
                       [this](SequenceId id) { return clients_.at(id).endless; }};
  const KvCacheOptions kv_cache_;
  const SchedulerOptions options_;
  Scheduler scheduler_;
  FakeReplica replica_;
  std::map<SequenceId, Client> clients_;  // those alive
  std::deque<InFlight> in_flight_;
  SequenceId next_id_ = 1;
  uint64_t next_serial_ = 1;
  StepId last_step_ = 0;
};

TEST(RandomSchedule, EverySequenceEndsWithTheTokensOfItsSoloRun) {
  Coverage coverage;
  for (uint32_t seed = 1; seed <= 2500; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomSchedule(seed, coverage).Run(400);
    if (::testing::Test::HasFatalFailure()) return;
  }
  // The schedules prove something only if they went everywhere.
  const auto went = [](const char* what, int64_t count, int64_t at_least) {
    ::testing::Test::RecordProperty(what, std::to_string(count));
    EXPECT_GE(count, at_least) << what;
  };
  went("steps", coverage.steps, 50'000);
  went("finished", coverage.finished, 10'000);
  went("preemptions", coverage.preemptions, 2'000);
  went("shared_positions", coverage.shared_positions, 10'000);
  went("abandoned", coverage.abandoned, 2'000);
  went("pauses", coverage.pauses, 5'000);
  went("resets", coverage.resets, 1'000);
  went("ended_in_flight", coverage.ended_in_flight, 1'000);
  went("forks", coverage.forks, 10'000);
  went("cached_positions", coverage.cached_positions, 50'000);
  went("copied_blocks", coverage.copied_blocks, 5'000);
  went("evicted_blocks", coverage.evicted_blocks, 10'000);
  went("resumed", coverage.resumed, 1'000);
  went("scored_rows", coverage.scored_rows, 20'000);
  went("early_commits_refused", coverage.early_commits_refused, 1'000);
  went("full_queues", coverage.full_queues, 1'000);
  went("ahead", coverage.ahead, 20'000);
  went("chunks_ahead", coverage.chunks_ahead, 2'000);
  went("surplus", coverage.surplus, 2'000);
  went("drafted", coverage.drafted, 20'000);
  went("accepted_drafts", coverage.accepted_drafts, 5'000);
  went("other_lengths", coverage.other_lengths, 1'000);
  went("choices", coverage.choices, 10'000);
  went("displaced", coverage.displaced, 1'000);
}

}  // namespace
}  // namespace sluice
