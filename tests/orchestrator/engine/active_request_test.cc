// A request alone, without text: what its sink hears of tokens and ends.
#include "orchestrator/engine/active_request.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/orchestrator/engine/recording_sink.h"

namespace sluice {
namespace {

using ::sluice::testing::RecordingSink;

EngineRequest Request(int num_sequences = 1) {
  EngineRequest request;
  request.prompt = {5, 6, 7};
  request.num_sequences = num_sequences;
  request.stop_tokens = {2};
  request.sampling = {.temperature = 0.5f, .top_k = 3, .top_p = 0.25f, .seed = 9};
  request.priority = 4;
  request.num_logprobs = 1;
  return request;
}

struct Made {
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  std::unique_ptr<ActiveRequest> request;
};

Made Make(EngineRequest request, std::vector<SequenceId> ids) {
  Made made;
  made.request =
      std::make_unique<ActiveRequest>(3, std::move(request), std::move(ids), made.sink, nullptr);
  return made;
}

FinishedSequence Finished(FinishReason reason, int64_t shared = 0) {
  FinishedSequence finished;
  finished.reason = reason;
  finished.usage.shared_positions = shared;
  return finished;
}

TEST(ActiveRequest, DescribesItsSequencesToTheScheduler) {
  EngineRequest asked = Request(2);
  asked.resumed = {{8}, {}};
  const Made made = Make(asked, {70, 71});
  const SequenceSpec first = made.request->SpecOf(0, 20);
  EXPECT_EQ(first.id, 70u);
  EXPECT_EQ(first.request, 3u);
  EXPECT_EQ(first.prompt, (std::vector<TokenId>{5, 6, 7}));
  EXPECT_EQ(first.resumed_tokens, std::vector<TokenId>{8});
  EXPECT_EQ(first.max_new_tokens, 20);
  EXPECT_EQ(first.stop_tokens, std::vector<TokenId>{2});
  EXPECT_EQ(first.priority, 4);
  EXPECT_EQ(first.prompt_of, std::nullopt);
  const SequenceSpec second = made.request->SpecOf(1, 20);
  EXPECT_EQ(second.prompt_of, 70u);
  EXPECT_TRUE(second.resumed_tokens.empty());
}

TEST(ActiveRequest, AsksTheSamplerByPositionOfTheTokenThatFollows) {
  const Made made = Make(Request(2), {70, 71});
  Segment segment;
  segment.sequence = 71;
  segment.first_position = 10;
  segment.tokens = {1, 1, 1};
  const std::vector<TokenId> tokens(13, 1);
  const RowRequest sampled = made.request->RowFor(1, segment, {.offset = 2}, tokens);
  EXPECT_EQ(sampled.sequence, 71u);
  EXPECT_EQ(sampled.sequence_index, 1);
  EXPECT_EQ(sampled.position, 13);
  EXPECT_EQ(sampled.num_logprobs, 1);
  EXPECT_EQ(sampled.tokens.data(), tokens.data());  // borrowed, not copied
  ASSERT_TRUE(std::holds_alternative<const SamplingOptions*>(sampled.task));
  EXPECT_EQ(std::get<const SamplingOptions*>(sampled.task)->seed, 9u);
  const RowRequest scored = made.request->RowFor(
      1, segment, {.offset = 0, .kind = RowKind::kScore, .target = 42}, tokens);
  EXPECT_EQ(scored.position, 11);
  ASSERT_TRUE(std::holds_alternative<ScoreTarget>(scored.task));
  EXPECT_EQ(std::get<ScoreTarget>(scored.task).token, 42);
}

TEST(ActiveRequest, ReadsTokensWhereOptionsDependOnThem) {
  EXPECT_FALSE(Make(Request(1), {70}).request->reads_tokens());
  EngineRequest penalised = Request(1);
  penalised.sampling.repetition_penalty = 1.5F;
  EXPECT_TRUE(Make(std::move(penalised), {70}).request->reads_tokens());
  EngineRequest constrained = Request(1);
  constrained.constraint = std::make_shared<const ConstraintSpec>();
  EXPECT_TRUE(Make(std::move(constrained), {70}).request->reads_tokens());
}

TEST(ActiveRequest, FinishesOnceAllItsSequencesHave) {
  const Made made = Make(Request(2), {70, 71});
  made.request->OnToken(1, {.token = 30});
  made.request->OnToken(0, {.token = 10});
  made.request->OnToken(1, {.token = 2});
  made.request->OnSequenceFinished(1, Finished(FinishReason::kStop, 2));
  EXPECT_FALSE(made.request->over());
  EXPECT_EQ(made.sink->num_ends(), 0);
  made.request->OnToken(0, {.token = 11});
  made.request->OnSequenceFinished(0, Finished(FinishReason::kLength));
  EXPECT_TRUE(made.request->over());
  ASSERT_TRUE(made.sink->Wait().ok());
  EXPECT_EQ(made.sink->tokens(0), (std::vector<TokenId>{10, 11}));
  EXPECT_EQ(made.sink->tokens(1), (std::vector<TokenId>{30, 2}));
  const RequestEnd end = *made.sink->end();
  ASSERT_EQ(end.sequences.size(), 2u);
  EXPECT_EQ(end.sequences[0].reason, EndReason::kLength);
  EXPECT_EQ(end.sequences[0].num_tokens, 2);
  EXPECT_EQ(end.sequences[0].stop_token, std::nullopt);
  EXPECT_EQ(end.sequences[1].reason, EndReason::kStopToken);
  EXPECT_EQ(end.sequences[1].stop_token, 2);
  EXPECT_EQ(end.num_prompt_tokens, 3);
  EXPECT_EQ(end.num_shared_prompt_tokens, 2);
}

TEST(ActiveRequest, KeepsTheTokenThatStoppedItFromItsText) {
  const Made made = Make(Request(), {70});
  EXPECT_EQ(made.request->TextOptionsFor({8, 9}).resumed_tokens, (std::vector<TokenId>{8, 9}));
  EXPECT_EQ(made.request->TextOptionsFor({8, 2}).resumed_tokens, std::vector<TokenId>{8});
  EXPECT_TRUE(made.request->TextOptionsFor({}).resumed_tokens.empty());
}

TEST(ActiveRequest, CountsResumedTokensWithoutDeliveringThem) {
  EngineRequest asked = Request();
  asked.resumed = {{8, 9}};
  const Made made = Make(asked, {70});
  made.request->OnToken(0, {.token = 10});
  made.request->OnSequenceFinished(0, Finished(FinishReason::kLength));
  ASSERT_TRUE(made.sink->Wait().ok());
  EXPECT_EQ(made.sink->tokens(), std::vector<TokenId>{10});
  EXPECT_EQ(made.sink->end()->sequences[0].num_tokens, 3);
}

TEST(ActiveRequest, SaysNothingAfterItHasFailed) {
  const Made made = Make(Request(), {70});
  made.request->OnToken(0, {.token = 10});
  made.request->Fail(absl::InternalError("broken"));
  made.request->OnToken(0, {.token = 11});
  made.request->OnSequenceFinished(0, Finished(FinishReason::kLength));
  made.request->Fail(absl::InternalError("again"));
  EXPECT_EQ(made.sink->Wait(), absl::InternalError("broken"));
  EXPECT_EQ(made.sink->num_ends(), 1);
  EXPECT_EQ(made.sink->tokens(), std::vector<TokenId>{10});
}

TEST(ActiveRequest, EndsAScoreAsScored) {
  EngineRequest asked = Request();
  asked.score = true;
  const Made made = Make(asked, {70});
  made.request->OnToken(0, {.token = 6, .logprob = -1});
  made.request->OnSequenceFinished(0, Finished(FinishReason::kLength));
  ASSERT_TRUE(made.sink->Wait().ok());
  EXPECT_EQ(made.sink->end()->sequences[0].reason, EndReason::kScored);
}

}  // namespace
}  // namespace sluice
