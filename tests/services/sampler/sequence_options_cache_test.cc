// What rows tell of their options, and for how long it holds.
#include "services/sampler/sequence_options_cache.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

v1::SamplerRow RowOf(uint64_t sequence, float temperature) {
  v1::SamplerRow row;
  row.set_sequence_id(sequence);
  row.mutable_sample()->set_temperature(temperature);
  return row;
}

v1::SamplerRow RowOf(uint64_t sequence) {
  v1::SamplerRow row;
  row.set_sequence_id(sequence);
  return row;
}

TEST(SequenceOptionsCache, HoldUntilOthersAreToldOrTheSequenceEnds) {
  SequenceOptionsCache options(10);
  EXPECT_EQ(options.Of(RowOf(3)), nullptr);
  const auto first = options.Of(RowOf(3, 0.5f));
  EXPECT_EQ(first->options.temperature, 0.5f);
  EXPECT_EQ(options.Of(RowOf(3)), first);
  EXPECT_EQ(options.Of(RowOf(4)), nullptr);
  EXPECT_EQ(options.Of(RowOf(3, 0.25f))->options.temperature, 0.25f);
  EXPECT_EQ(options.Of(RowOf(3))->options.temperature, 0.25f);
  EXPECT_EQ(first->options.temperature, 0.5f);  // a row of the same plan may use it yet
  v1::SamplerExecute plan;
  plan.add_ended_sequence_ids(3);
  plan.add_ended_sequence_ids(8);
  options.Drop(plan);
  EXPECT_EQ(options.Of(RowOf(3)), nullptr);
  EXPECT_EQ(options.size(), 0u);
}

TEST(SequenceOptionsCache, AreRefusedWhereNoRowCanBeChosenByThem) {
  SequenceOptionsCache options(10);
  EXPECT_EQ(options.Of(RowOf(1, 0.5f))->refusal, absl::OkStatus());
  EXPECT_EQ(options.Of(RowOf(1, -1))->refusal.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(options.Of(RowOf(1))->refusal.code(), absl::StatusCode::kInvalidArgument);
  v1::SamplerRow looks_back = RowOf(2, 0.5f);
  looks_back.mutable_sample()->set_frequency_penalty(1);
  EXPECT_EQ(options.Of(looks_back)->refusal.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
