// Log-probabilities in OpenAI's shapes.
#include "services/gateway/openai/logprobs.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

v1::ScoredText Scored(std::initializer_list<int32_t> ids) {
  v1::ScoredText score;
  for (const int32_t id : ids) score.add_token_ids(id);
  for (size_t i = 1; i < ids.size(); ++i) score.add_logprobs()->set_logprob(-1);
  return score;
}

TEST(CompletionLogprobsTest, OffsetsCountTheTextAlone) {
  const TokenTexts texts = {"<s>", " Once", " upon", "é"};
  CompletionLogprobs logprobs(texts);
  logprobs.AddPrompt(Scored({0, 1, 2}), "Once upon");
  logprobs.Add(3, v1::PositionLogprobs());
  logprobs.Add(2, v1::PositionLogprobs());
  const json made = logprobs.Take();
  EXPECT_EQ(made["tokens"], json({"<s>", " Once", " upon", "é", " upon"}));
  EXPECT_EQ(made["text_offset"], json({0, 0, 4, 9, 10}));
  EXPECT_EQ(made["token_logprobs"][0], nullptr);
  EXPECT_EQ(made["token_logprobs"].size(), 5u);
}

TEST(CompletionLogprobsTest, TokensAreTheTextWhereThereIsNone) {
  const TokenTexts texts = {"<s>", " Once"};
  CompletionLogprobs logprobs(texts);
  logprobs.AddPrompt(Scored({0, 1, 1}), "");
  EXPECT_EQ(logprobs.Take()["text_offset"], json({0, 3, 8}));
}

TEST(ChatLogprobsTest, AreThoseOfTheTokensThatAreShown) {
  const TokenTexts texts = {"</s>", "a"};
  v1::Chunk chunk;
  for (const int32_t id : {1, 0}) {
    chunk.add_token_ids(id);
    chunk.add_logprobs();
  }
  EXPECT_EQ(ChatLogprobs(chunk, 1, texts)["content"].size(), 1u);
  EXPECT_EQ(ChatLogprobs(chunk, 2, texts)["content"].size(), 2u);
}

}  // namespace
}  // namespace sluice::gateway::openai
