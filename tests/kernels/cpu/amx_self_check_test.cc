// The whole CPU backend on tiles, on machines without them (products_on_plain_tiles.cc): the layouts
// of weights and activations for tiles pass the self-check, and a unit that does something wrong
// does not.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/gemm_amx-inl.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/device/make_backend.h"
#include "kernels/device/self_check.h"
#include "tests/kernels/cpu/plain_tiles.h"

namespace sluice {
namespace {

class AmxSelfCheckTest : public ::testing::TestWithParam<TileFault> {
 protected:
  void SetUp() override {
    if (!Supports(InstructionSet::kAvx512Bf16)) {
      GTEST_SKIP() << "weights are unpacked with AVX-512, which this processor lacks";
    }
    PlainTiles::fault = GetParam();
  }
  void TearDown() override { PlainTiles::fault = TileFault::kNone; }

  static absl::Status Check(InstructionSet set) {
    return SelfCheck(*MakeCpuBackend({.num_threads = 1, .instructions = set}));
  }
};

using AmxSelfCheckPassesTest = AmxSelfCheckTest;
INSTANTIATE_TEST_SUITE_P(Unit, AmxSelfCheckPassesTest, ::testing::Values(TileFault::kNone));

TEST_P(AmxSelfCheckPassesTest, WithAUnitThatDoesAsTheManualSays) {
  const absl::Status status = Check(InstructionSet::kAmxBf16);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(AmxSelfCheckPassesTest, WithVectorsForFewRows) {
  PlainTiles::most_few_rows = kMostFewRows;
  const absl::Status status = Check(InstructionSet::kAmxBf16);
  PlainTiles::most_few_rows = 0;
  EXPECT_TRUE(status.ok()) << status;
}

using AmxSelfCheckFailsTest = AmxSelfCheckTest;
INSTANTIATE_TEST_SUITE_P(Faults, AmxSelfCheckFailsTest,
                         ::testing::Values(TileFault::kSumsAreKept, TileFault::kLastRowIsLost,
                                           TileFault::kPairsAreCrossed, TileFault::kSumsAreShared,
                                           TileFault::kLastPairIsLost));

TEST_P(AmxSelfCheckFailsTest, AndTheNextInstructionsAreTaken) {
  std::vector<std::string> warnings;
  const auto chosen = ChooseInstructions(
      {InstructionSet::kPortable, InstructionSet::kAvx512Bf16, InstructionSet::kAmxBf16}, Check,
      [&](const std::string& reason) { warnings.push_back(reason); });
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(*chosen, InstructionSet::kAvx512Bf16);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("amx_bf16"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("a product of "), std::string::npos) << warnings[0];
}

}  // namespace
}  // namespace sluice
