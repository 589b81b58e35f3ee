#include "orchestrator/api/messages.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

// Of a model with a context of 64, whose answers end at 48 by default.
v1::LengthLimit LimitOf(int num_prompt, int num_tokens, const v1::GenerateRequest& asked = {},
                        EndReason reason = EndReason::kLength) {
  ModelDescription model;
  model.max_positions = 64;
  model.max_length = 48;
  RequestEnd end;
  end.num_prompt_tokens = num_prompt;
  end.sequences.emplace_back();
  end.sequences[0].reason = reason;
  end.sequences[0].num_tokens = num_tokens;
  return ToProto(end, asked, model).sequences(0).length_limit();
}

TEST(FinishedMessage, SaysWhichLimitEndedASequence) {
  EXPECT_EQ(LimitOf(4, 60), v1::LENGTH_LIMIT_CONTEXT);
  EXPECT_EQ(LimitOf(4, 44), v1::LENGTH_LIMIT_MODEL_DEFAULT);
  EXPECT_EQ(LimitOf(4, 12), v1::LENGTH_LIMIT_KV_CACHE);
  v1::GenerateRequest asked;
  asked.set_max_tokens(60);
  EXPECT_EQ(LimitOf(4, 60, asked), v1::LENGTH_LIMIT_MAX_TOKENS);
}

TEST(FinishedMessage, NamesNoLimitWhereNoneWasReached) {
  EXPECT_EQ(LimitOf(4, 60, {}, EndReason::kStopToken), v1::LENGTH_LIMIT_UNSPECIFIED);
}

}  // namespace
}  // namespace sluice
