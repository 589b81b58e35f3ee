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
  BestOfSink sink(3, 2, next);
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
  BestOfSink sink(2, 2, next);
  sink.OnChunk(Chunk(1, "b", {-1}));
  sink.OnChunk(Chunk(0, "a", {-1}));
  RequestEnd end;
  end.sequences.resize(2);
  sink.OnFinished(end);
  EXPECT_EQ(next->text(0), "a");
  EXPECT_EQ(next->text(1), "b");
}

}  // namespace
}  // namespace sluice
