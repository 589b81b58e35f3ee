// What a search means for sequences of the scheduler, and what it asks of the sampler.
#include "orchestrator/engine/beam_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class BeamRunTest : public ::testing::Test {
 protected:
  BeamRunTest() {
    request_.prompt = {5, 6, 7};
    request_.num_logprobs = 1;
    request_.stop_tokens = {2};
    request_.beams = BeamSettings{.search = {.width = 2, .num_return = 2}, .num_candidates = 4};
  }

  BeamRun& run() {
    if (run_ == nullptr) run_ = std::make_unique<BeamRun>(request_, 70, 9);
    return *run_;
  }

  static RowResult Row(std::vector<RankedToken> top) {
    RowResult row;
    row.token = top.empty() ? 0 : top[0].token;
    row.top = std::move(top);
    return row;
  }

  BeamMoves Advance() {
    return run().Advance([this] { return next_id_++; });
  }

  static std::vector<TokenId> TokensOf(const std::vector<TokenEvent>& events) {
    std::vector<TokenId> tokens;
    for (const TokenEvent& event : events) tokens.push_back(event.token);
    return tokens;
  }

  EngineRequest request_;
  SequenceId next_id_ = 80;
  std::unique_ptr<BeamRun> run_;
};

TEST_F(BeamRunTest, TheBestOfABeamGoesOnInPlaceAndOthersAreForkedOff) {
  run().OnRow(70, Row({{11, -0.5F}, {12, -1}, {13, -2}}));
  ASSERT_TRUE(run().ranked());
  BeamMoves moves = Advance();
  EXPECT_THAT(moves.appends, ElementsAre(Pair(70, 11)));
  ASSERT_EQ(moves.forks.size(), 1u);
  EXPECT_EQ(moves.forks[0].from, 70u);
  EXPECT_EQ(moves.forks[0].to, 80u);
  EXPECT_EQ(moves.forks[0].num_tokens, 3);
  EXPECT_THAT(moves.forks[0].continuation, ElementsAre(12));
  EXPECT_THAT(run().sequences(), ElementsAre(70, 80));
  EXPECT_FALSE(run().ranked());
  run().OnRow(80, Row({{21, -0.25F}, {22, -0.25F}}));
  run().OnRow(80, Row({}));  // computed again: it says the same, and is not asked
  EXPECT_FALSE(run().ranked());
  run().OnRow(70, Row({{31, -9}}));
  moves = Advance();
  EXPECT_THAT(moves.ended, ElementsAre(70));
  EXPECT_THAT(moves.appends, ElementsAre(Pair(80, 21)));
  EXPECT_THAT(run().sequences(), ElementsAre(80, 81));
  EXPECT_THAT(TokensOf(run().Settled(0)), ElementsAre(12));
}

TEST_F(BeamRunTest, AsksForCandidatesAndSaysWhichTokenWasChosen) {
  const Segment first = {.sequence = 70, .first_position = 0, .tokens = {5, 6, 7}};
  const std::vector<TokenId> first_tokens = {5, 6, 7};
  RowRequest row = run().RowFor(first, {.offset = 2}, first_tokens);
  EXPECT_EQ(row.position, 3);
  EXPECT_EQ(row.num_logprobs, 4);
  EXPECT_FALSE(row.previous.has_value());
  run().OnRow(70, Row({{11, -0.5F}, {12, -1}}));
  Advance();
  const Segment second = {.sequence = 80, .first_position = 3, .tokens = {12}};
  const std::vector<TokenId> tokens = {5, 6, 7, 12};  // as the scheduler has them after the fork
  row = run().RowFor(second, {.offset = 0}, tokens);
  EXPECT_EQ(row.position, 4);
  EXPECT_EQ(row.sequence_index, 1);
  EXPECT_EQ(row.previous, 12);
  EXPECT_THAT(row.tokens, ElementsAre(5, 6, 7, 12));
}

TEST_F(BeamRunTest, KeepsLogprobsAndAlternativesOfItsResults) {
  request_.beams->search.early_stopping = EarlyStopping::kAtOnce;
  run().OnRow(70, Row({{11, -0.5F}, {2, -1}, {12, -2}}));
  Advance();
  run().OnRow(70, Row({{2, -0.25F}, {13, -1}}));
  run().OnRow(80, Row({{2, -0.125F}}));
  BeamMoves moves = Advance();
  EXPECT_TRUE(run().over());
  EXPECT_THAT(moves.appends, IsEmpty());
  EXPECT_THAT(moves.ended, ElementsAre(70, 80));
  const std::vector<BeamRun::Result> results = run().Results();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_THAT(TokensOf(results[0].tokens), ElementsAre(11, 2));
  EXPECT_EQ(results[0].sum, -0.75);
  EXPECT_EQ(results[0].score, -0.375);
  EXPECT_EQ(results[0].end, BeamEnd::kStopToken);
  EXPECT_EQ(results[0].tokens[1].logprob, -0.25F);
  ASSERT_EQ(results[0].tokens[1].top.size(), 1u);
  EXPECT_EQ(results[0].tokens[1].top[0].token, 2);
  EXPECT_THAT(TokensOf(results[1].tokens), ElementsAre(2));
}

TEST_F(BeamRunTest, AsksAboutTextsThatMayHaveEnded) {
  request_.stop_strings = {"x"};
  run().OnRow(70, Row({{11, -0.5F}, {12, -1}, {13, -2}}));
  std::vector<BeamRun::Question> questions = run().Questions();
  ASSERT_EQ(questions.size(), 2u);
  EXPECT_EQ(questions[0].token, 11);
  EXPECT_THAT(questions[0].tokens, IsEmpty());
  run().Answer(questions[0].expansion, true);
  run().Answer(questions[1].expansion, false);
  questions = run().Questions();  // the third takes the place of the one that ended
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_EQ(questions[0].token, 13);
  run().Answer(questions[0].expansion, false);
  EXPECT_THAT(run().Questions(), IsEmpty());
  EXPECT_THAT(Advance().appends, ElementsAre(Pair(70, 12)));
}

TEST_F(BeamRunTest, ABeamThatCantGoOnLeavesTheOthers) {
  run().OnRow(70, Row({{11, -0.5F}, {12, -1}}));
  Advance();
  RowResult failed;
  failed.error = "everything is forbidden";
  failed.error_code = absl::StatusCode::kFailedPrecondition;
  run().OnRow(70, failed);
  run().OnRow(80, Row({{13, -1}}));
  EXPECT_THAT(Advance().ended, ElementsAre(70));
  run().OnRow(80, failed);
  Advance();
  EXPECT_TRUE(run().over());
  EXPECT_THAT(run().Results(), IsEmpty());
  EXPECT_EQ(run().dead_end().message(), "everything is forbidden");
}

}  // namespace
}  // namespace sluice
