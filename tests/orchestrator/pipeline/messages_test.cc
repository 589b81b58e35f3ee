// Addresses and steps on their way to the stages and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/pipeline/sampler_plans.h"
#include "orchestrator/pipeline/step_messages.h"
#include "orchestrator/pipeline/topology.h"
#include "orchestrator/scheduler/scheduler.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseShardAddresses, ReadsRanksByCommaAndStagesBySemicolon) {
  const auto shards = ParseShardAddresses("a:1,b:2;c:3,unix:/d");
  ASSERT_TRUE(shards.ok()) << shards.status();
  EXPECT_THAT(*shards, ElementsAre(ElementsAre("a:1", "b:2"), ElementsAre("c:3", "unix:/d")));
  EXPECT_THAT(*ParseShardAddresses("a:1"), ElementsAre(ElementsAre("a:1")));
}

TEST(ParseShardAddresses, RefusesEmptyAddressesAndUnlikeStages) {
  for (const std::string text : {"", "a:1,", ",a:1", "a:1;", ";a:1", "a:1,,b:2", "a:1;;b:2"}) {
    const auto shards = ParseShardAddresses(text);
    ASSERT_EQ(shards.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(shards.status().message()), HasSubstr("\"" + text + "\""));
  }
  const auto uneven = ParseShardAddresses("a:1,b:2;c:3");
  EXPECT_EQ(uneven.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(uneven.status().message()), HasSubstr("stage 1 has 1 ranks"));
}

// Two segments: a decode, and a chunk that scores and samples.
Step TwoSegments() {
  Step step;
  step.id = 9;
  step.ended = {4, 5};
  step.after_idle = true;
  step.segments.push_back({.sequence = 7,
                           .first_position = 20,
                           .tokens = {100},
                           .sequence_length = 21,
                           .first_block = 1,
                           .blocks = {3, 1},
                           .rows = {{.offset = 0}}});
  step.segments.push_back(
      {.sequence = 8,
       .first_position = 4,
       .tokens = {101, 102, 103},
       .sequence_length = 9,
       .blocks = {5},
       .rows = {{.offset = 0, .kind = RowKind::kScore, .target = 102}, {.offset = 2}}});
  return step;
}

v1::StageRunRequest EmbeddingMessageOf(const Step& step) {
  v1::StageRunRequest request;
  SetEmbeddingMessage(6, step, request);
  return request;
}

v1::StageRunRequest ShardMessageOf(const Step& step) {
  v1::StageRunRequest request;
  SetShardMessage(6, step, request);
  return request;
}

v1::StageRunRequest MessageOf(SamplerPlans& plans, const std::vector<RowRequest>& rows,
                              const Step& step = TwoSegments()) {
  v1::StageRunRequest request;
  plans.SetMessage(6, step, rows, request);
  return request;
}

v1::SamplerExecute PlanOf(SamplerPlans& plans, const std::vector<RowRequest>& rows,
                          const Step& step = TwoSegments()) {
  return MessageOf(plans, rows, step).execute().sampler();
}

TEST(StepMessages, SayWhichStepTheyAreOf) {
  SamplerPlans plans;
  for (const v1::StageRunRequest& request :
       {EmbeddingMessageOf(TwoSegments()), ShardMessageOf(TwoSegments()), MessageOf(plans, {})}) {
    EXPECT_EQ(request.execute().epoch(), 6u);
    EXPECT_EQ(request.execute().step_id(), 9u);
  }
}

TEST(StepMessages, GiveTheEmbeddingTokensWithTheirPositions) {
  const v1::EmbeddingExecute execute = EmbeddingMessageOf(TwoSegments()).execute().embedding();
  EXPECT_THAT(execute.token_ids(), ElementsAre(100, 101, 102, 103));
  EXPECT_THAT(execute.positions(), ElementsAre(20, 4, 5, 6));
}

TEST(StepMessages, NameTokensThatAreNotKnownByTheirStepAndRow) {
  Step step = TwoSegments();
  std::swap(step.segments[0], step.segments[1]);
  step.segments[1].chosen_by = ChosenBy{.step = 8, .row = 5};
  const v1::EmbeddingExecute execute = EmbeddingMessageOf(step).execute().embedding();
  EXPECT_EQ(execute.token_ids_size(), 4);
  ASSERT_EQ(execute.chosen_tokens_size(), 1);
  EXPECT_EQ(execute.chosen_tokens(0).index(), 3);
  EXPECT_EQ(execute.chosen_tokens(0).step_id(), 8u);
  EXPECT_EQ(execute.chosen_tokens(0).row(), 5);
  EXPECT_EQ(execute.chosen_tokens(0).count(), 1);
}

TEST(StepMessages, NameTokensOfNeighbouringRowsTogether) {
  Step step;
  step.id = 9;
  const std::vector<ChosenBy> chosen = {{8, 0}, {8, 1}, {8, 3}, {7, 4}, {7, 5}};
  for (const ChosenBy& by : chosen) step.segments.push_back({.tokens = {0}, .chosen_by = by});
  step.segments.insert(step.segments.begin() + 4, {.tokens = {100}});  // {7, 5} comes behind it
  const v1::EmbeddingExecute execute = EmbeddingMessageOf(step).execute().embedding();
  std::vector<std::vector<int64_t>> runs;
  for (const v1::ChosenToken& run : execute.chosen_tokens()) {
    runs.push_back({run.index(), static_cast<int64_t>(run.step_id()), run.row(), run.count()});
  }
  EXPECT_THAT(runs, ElementsAre(ElementsAre(0, 8, 0, 2), ElementsAre(2, 8, 3, 1),
                                ElementsAre(3, 7, 4, 1), ElementsAre(5, 7, 5, 1)));
}

// What a message was before is gone, whatever the step before was.
TEST(StepMessages, AreTheSameInTheMemoryOfOthers) {
  Step other = TwoSegments();
  other.copies = {{.source = 4, .destination = 2}};
  other.segments[1].chosen_by = ChosenBy{.step = 8, .row = 5};
  auto embedding = EmbeddingMessageOf(other);
  auto shard = ShardMessageOf(other);
  v1::StageRunRequest sampler;
  sampler.mutable_open()->set_epoch(5);
  const SamplingOptions options{.temperature = 0.5f};
  const std::vector<RowRequest> rows = {{.sequence = 7, .position = 21, .task = &options}};
  SamplerPlans plans, again;
  SetEmbeddingMessage(6, TwoSegments(), embedding);
  SetShardMessage(6, TwoSegments(), shard);
  plans.SetMessage(6, TwoSegments(), rows, sampler);
  EXPECT_EQ(embedding.SerializeAsString(), EmbeddingMessageOf(TwoSegments()).SerializeAsString());
  EXPECT_EQ(shard.SerializeAsString(), ShardMessageOf(TwoSegments()).SerializeAsString());
  EXPECT_EQ(sampler.SerializeAsString(), MessageOf(again, rows).SerializeAsString());
}

TEST(StepMessages, GiveShardsBlockCopiesInOrder) {
  Step step = TwoSegments();
  step.copies = {{.source = 4, .destination = 2}, {.source = 2, .destination = 6}};
  const v1::ShardExecute execute = ShardMessageOf(step).execute().shard();
  ASSERT_EQ(execute.block_copies_size(), 2);
  EXPECT_EQ(execute.block_copies(0).source(), 4);
  EXPECT_EQ(execute.block_copies(0).destination(), 2);
  EXPECT_EQ(execute.block_copies(1).source(), 2);
  EXPECT_EQ(execute.block_copies(1).destination(), 6);
}

TEST(StepMessages, GiveShardsTheSlotsOfStates) {
  Step step = TwoSegments();
  step.segments[1].state_slots = {3, 0};
  step.state_copies = {{.source = 1, .destination = 3}};
  const v1::ShardExecute execute = ShardMessageOf(step).execute().shard();
  EXPECT_FALSE(execute.segments(0).has_states());
  EXPECT_THAT(execute.segments(1).states().slots(), ElementsAre(3, 0));
  ASSERT_EQ(execute.state_copies_size(), 1);
  EXPECT_EQ(execute.state_copies(0).source(), 1);
  EXPECT_EQ(execute.state_copies(0).destination(), 3);
}

TEST(StepMessages, GiveShardsSegmentsAndRowsOfTheWholeStep) {
  const v1::ShardExecute execute = ShardMessageOf(TwoSegments()).execute().shard();
  ASSERT_EQ(execute.segments_size(), 2);
  EXPECT_EQ(execute.segments(0).sequence_id(), 7u);
  EXPECT_EQ(execute.segments(0).first_position(), 20);
  EXPECT_EQ(execute.segments(0).num_positions(), 1);
  EXPECT_EQ(execute.segments(0).first_block(), 1);
  EXPECT_THAT(execute.segments(0).blocks(), ElementsAre(3, 1));
  EXPECT_EQ(execute.segments(1).first_block(), 0);
  EXPECT_THAT(execute.segments(1).blocks(), ElementsAre(5));
  EXPECT_THAT(execute.ended_sequence_ids(), ElementsAre(4, 5));
  EXPECT_TRUE(execute.after_idle());
  EXPECT_EQ(execute.segments(0).sequence_length(), 21);
  EXPECT_EQ(execute.segments(1).num_positions(), 3);
  EXPECT_EQ(execute.segments(1).sequence_length(), 9);
  EXPECT_THAT(execute.output_rows(), ElementsAre(0, 1, 3));
}

TEST(StepMessages, GiveTheSamplerARowForEachThatIsAsked) {
  const SamplingOptions options{.temperature = 0.5f, .top_k = 4, .top_p = 0.75f, .seed = 11};
  const std::vector<RowRequest> rows = {
      {.sequence = 7, .sequence_index = 2, .position = 21, .task = &options, .num_logprobs = 3},
      {.sequence = 8, .position = 5, .task = ScoreTarget{102}}};
  SamplerPlans plans;
  const v1::SamplerExecute execute = PlanOf(plans, rows);
  ASSERT_EQ(execute.rows_size(), 2);
  const v1::SamplerRow& sampled = execute.rows(0);
  EXPECT_EQ(sampled.sequence_id(), 7u);
  EXPECT_EQ(sampled.sequence_index(), 2);
  EXPECT_EQ(sampled.position(), 21);
  EXPECT_EQ(sampled.num_logprobs(), 3);
  EXPECT_EQ(sampled.sample().temperature(), 0.5f);
  EXPECT_EQ(sampled.sample().top_k(), 4);
  EXPECT_EQ(sampled.sample().top_p(), 0.75f);
  EXPECT_EQ(sampled.sample().seed(), 11u);
  EXPECT_EQ(execute.rows(1).score_token_id(), 102);
}

// Bytes of all messages of the steps that choose `count` tokens after a prompt of `num_prompt`.
std::vector<size_t> BytesOfDecodes(int num_prompt, int count) {
  Scheduler scheduler({.max_tokens_per_step = 1 << 16, .max_positions = 1 << 16},
                      {.num_blocks = 1 << 12, .block_size = 16});
  SequenceSpec spec;
  spec.id = 1;
  spec.prompt.assign(num_prompt, 7);
  spec.max_new_tokens = count + 1;
  EXPECT_TRUE(scheduler.Add(spec).ok());
  const SamplingOptions options;
  std::vector<size_t> bytes;
  SamplerPlans plans;
  while (const std::optional<Step> step = scheduler.Plan()) {
    const std::vector<RowRequest> rows = {
        {.sequence = 1, .position = step->segments[0].sequence_length, .task = &options}};
    bytes.push_back(EmbeddingMessageOf(*step).ByteSizeLong() +
                    ShardMessageOf(*step).ByteSizeLong() +
                    MessageOf(plans, rows, *step).ByteSizeLong());
    EXPECT_TRUE(scheduler.Commit(step->id, {5}).ok());
  }
  bytes.erase(bytes.begin());  // the prompt
  return bytes;
}

// Numbers take up to two bytes more each where they are large; nothing else grows.
TEST(StepMessages, DoNotGrowWithTheContext) {
  const std::vector<size_t> near = BytesOfDecodes(32, 64), far = BytesOfDecodes(32'768, 64);
  ASSERT_EQ(near.size(), 64u);
  ASSERT_EQ(far.size(), 64u);
  const size_t largest_near = *std::max_element(near.begin(), near.end());
  const size_t largest_far = *std::max_element(far.begin(), far.end());
  RecordProperty("bytes_at_32", std::to_string(near[1]));
  RecordProperty("bytes_at_32768", std::to_string(far[1]));
  std::printf("bytes of a decode step at 32 positions: %zu to %zu; at 32768: %zu to %zu\n",
              *std::min_element(near.begin(), near.end()), largest_near,
              *std::min_element(far.begin(), far.end()), largest_far);
  EXPECT_LT(largest_near, 128u);
  EXPECT_LE(largest_far, largest_near + 16);
}

// Options that look at a row alone go with a sequence's first one, and again once it has ended.
TEST(SamplerPlans, TellsOptionsOfRowsOnce) {
  const SamplingOptions options{.temperature = 0.5f, .seed = 11};
  const std::vector<RowRequest> rows = {{.sequence = 5, .position = 21, .task = &options}};
  Step step = TwoSegments();
  step.ended.clear();
  SamplerPlans plans;
  EXPECT_EQ(PlanOf(plans, rows, step).rows(0).sample().seed(), 11u);
  const v1::SamplerExecute next = PlanOf(plans, rows, step);
  EXPECT_FALSE(next.rows(0).has_sample());
  EXPECT_EQ(next.rows(0).sequence_id(), 5u);
  EXPECT_EQ(next.rows(0).position(), 21);
  const v1::SamplerExecute ended = PlanOf(plans, rows);  // gave up its blocks
  EXPECT_THAT(ended.ended_sequence_ids(), ElementsAre(5));
  EXPECT_EQ(ended.rows(0).sample().seed(), 11u);
}

// A sequence whose options look back is told once, with all before its row; then its rows alone go.
TEST(SamplerPlans, TellsOfASequenceOnceUntilItHasHadNoRowForLong) {
  const SamplingOptions options{.frequency_penalty = 0.5f, .temperature = 0.5f};
  const std::vector<TokenId> tokens = {3, 4, 5, 6}, stops = {2};
  RowRequest row{.sequence = 7,
                 .sequence_index = 1,
                 .position = 4,
                 .task = &options,
                 .tokens = tokens,
                 .num_prompt_tokens = 3,
                 .stop_tokens = stops};
  SamplerPlans plans;
  const v1::SamplerExecute first = PlanOf(plans, {row});
  ASSERT_EQ(first.sequences_size(), 1);
  EXPECT_EQ(first.sequences(0).sequence_id(), 7u);
  EXPECT_EQ(first.sequences(0).sampling().frequency_penalty(), 0.5f);
  EXPECT_EQ(first.sequences(0).sampling().temperature(), 0.5f);
  EXPECT_EQ(first.sequences(0).num_prompt_tokens(), 3);
  EXPECT_THAT(first.sequences(0).token_ids(), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(first.sequences(0).stop_token_ids(), ElementsAre(2));
  EXPECT_FALSE(first.rows(0).has_sample());
  EXPECT_EQ(first.rows(0).position(), 4);
  EXPECT_EQ(first.rows(0).sequence_index(), 1);

  row.position = 5;
  row.tokens = {};  // what the sampler chose it knows
  EXPECT_EQ(PlanOf(plans, {row}).sequences_size(), 0);

  // Without a row of its own it is dropped once, and told again when it comes back.
  const SamplingOptions plain;
  const std::vector<RowRequest> other = {{.sequence = 9, .position = 2, .task = &plain}};
  std::vector<uint64_t> ended;
  for (uint64_t i = 0; i < 3 * SamplerPlans::kForgottenAfter; ++i) {
    const v1::SamplerExecute execute = PlanOf(plans, other);
    EXPECT_EQ(execute.rows(0).has_sample(), i == 0);
    ended.insert(ended.end(), execute.ended_sequence_ids().begin(),
                 execute.ended_sequence_ids().end());
  }
  EXPECT_THAT(ended, ElementsAre(7));
  row.position = 4;
  row.tokens = tokens;
  EXPECT_EQ(PlanOf(plans, {row}).sequences_size(), 1);
}

TEST(StepMessages, ReadTheSamplersRows) {
  v1::StageExecuted step;
  v1::SamplerExecuted& executed = *step.mutable_sampler();
  v1::SampledRow& row = *executed.add_rows();
  row.set_token_id(5);
  row.set_logprob(-0.5f);
  row.add_top_token_ids(5);
  row.add_top_logprobs(-0.5f);
  row.add_top_token_ids(6);
  row.add_top_logprobs(-1.5f);
  executed.add_rows()->set_error_message("not finite");
  executed.add_rows()->set_error_message("nothing left");
  executed.mutable_rows(2)->set_error_code(static_cast<int>(absl::StatusCode::kFailedPrecondition));
  const auto results = ResultsFrom(step);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 3u);
  EXPECT_EQ((*results)[0].token, 5);
  EXPECT_EQ((*results)[0].logprob, -0.5f);
  ASSERT_EQ((*results)[0].top.size(), 2u);
  EXPECT_EQ((*results)[0].top[1].token, 6);
  EXPECT_EQ((*results)[0].top[1].logprob, -1.5f);
  EXPECT_EQ((*results)[0].error, "");
  EXPECT_EQ((*results)[1].error, "not finite");
  EXPECT_EQ((*results)[1].error_code, absl::StatusCode::kInternal);
  EXPECT_EQ((*results)[2].error, "nothing left");
  EXPECT_EQ((*results)[2].error_code, absl::StatusCode::kFailedPrecondition);
}

TEST(StepMessages, RefuseAlternativesThatDoNotPairUp) {
  v1::StageExecuted executed;
  executed.set_step_id(9);
  executed.mutable_sampler()->add_rows()->add_top_token_ids(5);
  const auto results = ResultsFrom(executed);
  EXPECT_EQ(results.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(results.status().message()), HasSubstr("step 9"));
}

}  // namespace
}  // namespace sluice
