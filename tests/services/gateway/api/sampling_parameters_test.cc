#include "services/gateway/api/sampling_parameters.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace sluice::gateway {
namespace {

v1::SamplingOptions Read(const nlohmann::json& body) {
  v1::SamplingOptions sampling;
  ObjectReader reader(body);
  ReadSamplingParameters(reader, sampling);
  EXPECT_TRUE(reader.Finish().ok()) << reader.Finish();
  return sampling;
}

TEST(SamplingParametersTest, ASeedOfMinusOneIsDrawn) {
  EXPECT_FALSE(Read({{"seed", -1}}).has_seed());
  EXPECT_EQ(Read({{"seed", 0}}).seed(), 0u);
  EXPECT_EQ(Read({{"seed", uint64_t{1} << 63}}).seed(), uint64_t{1} << 63);
  EXPECT_EQ(Read({{"seed", -2}}).seed(), ~uint64_t{1});
}

TEST(SamplingParametersTest, ATopPOfZeroLeavesTheMostProbableToken) {
  EXPECT_EQ(Read({{"top_p", 0}}).top_p(), std::numeric_limits<float>::min());
  EXPECT_EQ(Read({{"top_p", 0.5}}).top_p(), 0.5F);
  EXPECT_EQ(Read({{"top_k", -1}}).top_k(), 0);
}

}  // namespace
}  // namespace sluice::gateway
