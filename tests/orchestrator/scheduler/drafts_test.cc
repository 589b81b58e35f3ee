// Several tokens of a sequence in one step: what was drafted and is right counts.
#include <map>

#include "tests/orchestrator/scheduler/testing.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

// Proposes what it is told to, and remembers what it hears.
class ToldDrafts final : public DraftSource {
 public:
  void OnTokens(const SequenceSpec& spec, int32_t, absl::Span<const TokenId> tokens) override {
    num_tokens[spec.id] = static_cast<int>(tokens.size());
  }
  void OnEnd(SequenceId sequence, absl::Span<const TokenId>) override {
    num_tokens.erase(sequence);
  }
  bool AllWait(int32_t) override { return all_wait; }
  bool Waits(SequenceId sequence) override { return waits == sequence; }
  bool Holds(SequenceId sequence, int32_t num_tokens) override {
    last_held[sequence] = num_tokens;
    return holds == sequence;
  }
  void Draft(const DraftRoom& room, absl::Span<DraftCandidate> candidates) override {
    last_room = room;
    for (DraftCandidate& candidate : candidates) {
      last_most[candidate.sequence] = candidate.most;
      const Tokens& told = drafts[candidate.sequence];
      const auto count = std::min<ptrdiff_t>({std::ssize(told), candidate.most, room.tokens});
      candidate.draft.assign(told.begin(), told.begin() + count);
    }
  }

  std::map<SequenceId, Tokens> drafts;
  bool all_wait = false;
  SequenceId waits = 0;
  SequenceId holds = 0;
  std::map<SequenceId, int> last_held;
  DraftRoom last_room;
  std::map<SequenceId, int> last_most;
  std::map<SequenceId, int> num_tokens;
};

class DraftsTest : public SchedulerTest {
 protected:
  DraftsTest() { options_.drafts = &drafts_; }

  SequenceSpec Drafted(SequenceId id, int num_prompt, int max_new_tokens, int max_drafts = 4) {
    SequenceSpec spec = Spec(id, num_prompt, max_new_tokens);
    spec.max_drafts = max_drafts;
    return spec;
  }

  StepOutcome CommitRows(const Step& step, const std::vector<TokenId>& tokens) {
    absl::StatusOr<StepOutcome> outcome = scheduler().Commit(step.id, tokens);
    CheckIntegrity();
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.value_or(StepOutcome{});
  }

  // Its prompt of 3 tokens is computed, and 7 chosen behind it.
  void Begin(SequenceSpec spec) {
    Add(std::move(spec));
    PlanAndCommit(7);
  }

  std::vector<TokenId> Accepted(const StepOutcome& outcome) {
    std::vector<TokenId> tokens;
    for (const AcceptedRow& row : outcome.rows) tokens.push_back(row.token);
    return tokens;
  }

  ToldDrafts drafts_;
};

TEST_F(DraftsTest, TakesTheTokensUpToTheFirstWrongDraft) {
  Begin(Drafted(1, 3, 20));
  drafts_.drafts[1] = {11, 12, 13};
  const Step step = Plan();
  ASSERT_THAT(Parts(step), ElementsAre(Part{1, 3, 4}));
  const Segment& segment = step.segments[0];
  EXPECT_THAT(segment.tokens, ElementsAre(7, 11, 12, 13));
  EXPECT_EQ(segment.num_drafts, 3);
  EXPECT_EQ(segment.sequence_length, 7);
  ASSERT_EQ(segment.rows.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(segment.rows[i].offset, i);
  EXPECT_TRUE(PlansNothing()) << "it is in flight";

  const StepOutcome outcome = CommitRows(step, {11, 12, 99, 98});
  EXPECT_THAT(Accepted(outcome), ElementsAre(11, 12, 99));
  EXPECT_EQ(outcome.rows[2].position, 6);
  EXPECT_EQ(Usage(1).drafted_tokens, 3);
  EXPECT_EQ(Usage(1).accepted_drafts, 2);
  EXPECT_EQ(Usage(1).computed_positions, 6);
  EXPECT_EQ(drafts_.num_tokens[1], 7);
  // The position of the wrong one is written again.
  drafts_.drafts.clear();
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 6, 1}));
}

TEST_F(DraftsTest, AllRightGivesOneTokenMoreThanDrafted) {
  Begin(Drafted(1, 3, 20));
  drafts_.drafts[1] = {11, 12};
  EXPECT_THAT(Accepted(CommitRows(Plan(), {11, 12, 13})), ElementsAre(11, 12, 13));
  drafts_.drafts.clear();
  const Step next = Plan();
  EXPECT_THAT(Parts(next), ElementsAre(Part{1, 6, 1}));
  EXPECT_THAT(next.segments[0].tokens, ElementsAre(13));
}

TEST_F(DraftsTest, NeverChoosesMoreTokensThanTheSequenceMayHave) {
  Begin(Drafted(1, 3, 4, 10));
  drafts_.drafts[1] = {11, 12, 13, 14};
  const Step step = Plan();
  EXPECT_EQ(drafts_.last_most[1], 2) << "3 tokens are left, one of which needs no draft";
  const StepOutcome outcome = CommitRows(step, {11, 12, 13});
  ASSERT_THAT(outcome.finished, ::testing::SizeIs(1));
  EXPECT_EQ(outcome.finished[0].reason, FinishReason::kLength);
  EXPECT_EQ(outcome.finished[0].usage.generated_tokens, 4);
  EXPECT_TRUE(drafts_.num_tokens.empty());
}

TEST_F(DraftsTest, EndsWithAStopTokenThatWasNoDraft) {
  SequenceSpec spec = Drafted(1, 3, 20);
  spec.stop_tokens = {50};
  Begin(std::move(spec));
  drafts_.drafts[1] = {11, 50, 12};
  const Step step = Plan();
  EXPECT_THAT(step.segments[0].tokens, ElementsAre(7, 11)) << "a stop token needs no draft";
  const StepOutcome outcome = CommitRows(step, {11, 50});
  EXPECT_THAT(Accepted(outcome), ElementsAre(11, 50));
  ASSERT_THAT(outcome.finished, ::testing::SizeIs(1));
  EXPECT_EQ(outcome.finished[0].reason, FinishReason::kStop);
}

TEST_F(DraftsTest, NobodyGivesBlocksForADraft) {
  kv_cache_ = {.num_blocks = 3, .block_size = 4};
  Begin(Drafted(1, 3, 9, 8));
  Add(Spec(2, 3, 2));
  drafts_.drafts[1] = {11, 12, 13, 14, 15, 16};
  const Step step = Plan();
  EXPECT_THAT(Parts(step), ElementsAre(Part{1, 3, 1}, Part{2, 0, 3}));
  Commit(step, 7);
  // Nobody waits now, and one block is left: positions 4 to 7.
  drafts_.drafts[1] = {8, 11, 12, 13, 14, 15};
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 4, 4}, Part{2, 3, 1}));
  EXPECT_EQ(scheduler().statistics().preemptions, 0u);
}

TEST_F(DraftsTest, ADeclinedSequenceIsNotDraftedOn) {
  Begin(Drafted(1, 3, 20, 0));
  drafts_.drafts[1] = {11};
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 3, 1}));
  EXPECT_TRUE(drafts_.num_tokens.empty());
}

TEST_F(DraftsTest, AllWaitKeepsStepsFromGoingAhead) {
  options_.steps_ahead = 1;
  drafts_.all_wait = true;
  Begin(Drafted(1, 3, 20));
  const Step step = Plan();
  EXPECT_TRUE(PlansNothing());
  Commit(step, 8);
  drafts_.all_wait = false;
  Plan();
  const Step ahead = Plan();
  EXPECT_TRUE(ahead.segments[0].chosen_by.has_value());
}

TEST_F(DraftsTest, OneThatWaitsIsPassedOverByStepsAhead) {
  options_.steps_ahead = 1;
  Add(Drafted(1, 3, 20));
  Add(Drafted(2, 3, 20));
  drafts_.waits = 1;
  PlanAndCommit(7);
  drafts_.drafts[1] = {11};
  const Step both = Plan();
  EXPECT_THAT(Parts(both), ElementsAre(Part{1, 3, 2}, Part{2, 3, 1}));
  const Step ahead = Plan();
  EXPECT_THAT(Parts(ahead), ElementsAre(Part{2, 4, 1}));
  EXPECT_EQ(ahead.segments[0].chosen_by, (ChosenBy{.step = both.id, .row = 2}));
}

TEST_F(DraftsTest, WrongDraftsAreNeverFoundByTheirTokens) {
  SequenceSpec spec = Drafted(1, 3, 20, 8);
  spec.use_prefix_cache = true;
  Begin(spec);
  drafts_.drafts[1] = {11, 12, 13, 14, 15, 16};
  CommitRows(Plan(), {11, 99, 98, 97, 96, 95, 94});  // 100 101 102 7 | 11, then 99
  ASSERT_TRUE(scheduler().Finish(1, FinishReason::kCancelled).ok());
  SequenceSpec other = spec;
  other.id = 2;
  other.prompt = {100, 101, 102, 7, 11, 12, 13, 14, 15, 16};
  Add(other);
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{2, 4, 6})) << "one full block is known";
}

TEST_F(DraftsTest, ALostStepIsComputedAgain) {
  Begin(Drafted(1, 3, 20));
  drafts_.drafts[1] = {11, 12};
  const Step lost = Plan();
  scheduler().AbandonSteps();
  CheckIntegrity();
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 3, 3}));
  scheduler().Reset();
  CheckIntegrity();
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 0, 4}));
  EXPECT_EQ(scheduler().Commit(lost.id, {}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DraftsTest, KeysOfAnotherLengthAreNotDrafted) {
  options_.rope_length_class = [](int32_t length) { return length <= 6 ? 6 : 100; };
  Begin(Drafted(1, 3, 20, 8));
  drafts_.drafts[1] = {11, 12, 13, 14, 15};
  const Step step = Plan();
  EXPECT_THAT(Parts(step), ElementsAre(Part{1, 3, 3})) << "6 tokens are alike";
  CommitRows(step, {11, 12, 13});
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 0, 7})) << "keys of 7 are others";
}

TEST_F(DraftsTest, ASequenceWhoseDraftIsOnItsWayIsNotPlannedAndOthersAre) {
  Add(Drafted(1, 3, 20));
  Begin(Drafted(2, 3, 20));
  drafts_.all_wait = true;
  drafts_.holds = 1;
  const Step others = Plan();
  EXPECT_THAT(Parts(others), ElementsAre(Part{2, 3, 1}));
  EXPECT_EQ(drafts_.last_held[1], 4);
  EXPECT_EQ(scheduler().Plan(), std::nullopt);
  drafts_.holds = 0;
  drafts_.drafts[1] = {11};
  CommitRows(others, {7});
  const Step both = Plan();
  EXPECT_THAT(Parts(both), ElementsAre(Part{1, 3, 2}, Part{2, 4, 1}));
}

TEST_F(DraftsTest, BesidePromptsNobodyWaitsForADraft) {
  Begin(Drafted(1, 3, 20));
  drafts_.all_wait = true;
  drafts_.holds = 1;
  Add(Drafted(2, 3, 20));
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 3, 1}, Part{2, 0, 3}));
}

TEST_F(DraftsTest, WhoDeclinesDraftsDoesNotWaitForOne) {
  Begin(Drafted(1, 3, 20, /*max_drafts=*/0));
  drafts_.all_wait = true;
  drafts_.holds = 1;
  EXPECT_THAT(Parts(Plan()), ElementsAre(Part{1, 3, 1}));
}

}  // namespace
}  // namespace sluice
