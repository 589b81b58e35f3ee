#include "orchestrator/api/best_of_sink.h"

#include <gtest/gtest.h>

#include "tests/orchestrator/engine/recording_sink.h"

namespace sluice {
namespace {

ChunkEvent Chunk(int sequence, const std::string& text, std::vector<float> logprobs) {
  ChunkEvent chunk = {.sequence_index = sequence, .text = text, .tokens = {}, .prompt_tokens = {}};
  for (const float logprob : logprobs) {
    chunk.tokens.push_back({.token = 10 * sequence, .logprob = logprob, .top = {}});
  }
  return chunk;
}

// The second has the largest mean, the first the largest sum.
TEST(BestOfSink, PassesTheBestOnWhenAllAreFinished) {
  auto next = std::make_shared<testing::RecordingSink>();
  BestOfSink sink(3, 2, {}, next);
  sink.OnChunk(Chunk(0, "a", {-1}));
  sink.OnChunk(Chunk(1, "b", {-0.5F, -0.5F}));
  sink.OnChunk(Chunk(2, "c", {-3}));
  sink.OnChunk(Chunk(1, "B", {-0.5F}));
  EXPECT_EQ(next->text(0), "");
  RequestEnd end;
  for (const int num_tokens : {1, 3, 1}) {
    SequenceEnd sequence;
    sequence.num_tokens = num_tokens;
    end.sequences.push_back(sequence);
  }
  sink.OnFinished(end);
  EXPECT_EQ(next->text(0), "bB");
  EXPECT_EQ(next->text(1), "a");
  EXPECT_EQ(next->text(2), "");
  EXPECT_EQ(next->tokens(0), (std::vector<TokenId>{10, 10, 10}));
  ASSERT_TRUE(next->end().has_value());
  ASSERT_EQ(next->end()->sequences.size(), 2u);
  EXPECT_EQ(next->end()->sequences[0].num_tokens, 3);
  EXPECT_EQ(next->end()->num_discarded_tokens, 1);
}

TEST(BestOfSink, EqualOnesStayInTheOrderInWhichTheyWereDrawn) {
  auto next = std::make_shared<testing::RecordingSink>();
  BestOfSink sink(2, 2, {}, next);
  sink.OnChunk(Chunk(1, "b", {-1}));
  sink.OnChunk(Chunk(0, "a", {-1}));
  RequestEnd end;
  end.sequences.resize(2);
  sink.OnFinished(end);
  EXPECT_EQ(next->text(0), "a");
  EXPECT_EQ(next->text(1), "b");
}

// Resumed with what is `resumed`: of the sequences 20 20 and 10, in this order.
std::shared_ptr<testing::RecordingSink> Resumed(std::vector<std::vector<TokenId>> resumed) {
  auto next = std::make_shared<testing::RecordingSink>();
  BestOfSink sink(3, 2, std::move(resumed), next);
  sink.OnChunk(Chunk(0, "z", {-9}));
  sink.OnChunk(Chunk(2, "b", {-0.5F}));
  sink.OnChunk(Chunk(1, "a", {-1}));
  sink.OnChunk(Chunk(2, "B", {-0.5F}));
  RequestEnd end;
  end.sequences.resize(3);
  sink.OnFinished(end);
  return next;
}

TEST(BestOfSink, LeavesOutWhatAResumedClientHas) {
  EXPECT_EQ(Resumed({})->text(0), "bB");
  for (const auto& next : {Resumed({{20, 20}}), Resumed({{20, 20}, {}})}) {
    EXPECT_EQ(next->text(0), "");
    EXPECT_EQ(next->text(1), "a");
    ASSERT_TRUE(next->end().has_value());
    EXPECT_EQ(next->end()->sequences.size(), 2u);
  }
  for (const auto& next : {Resumed({{20}}), Resumed({{20, 20}, {11}})}) {
    EXPECT_FALSE(next->end().has_value());
    EXPECT_EQ(next->Wait().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace sluice
