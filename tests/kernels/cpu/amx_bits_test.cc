// The bits of products on tiles, against the record that processors with tiles are held against: with
// a plain unit in place of the processor's, so that changed bits show on every machine with AVX-512.
#include <gtest/gtest.h>

#include <string>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/gemm_amx-inl.h"
#include "kernels/cpu/instruction_set.h"
#include "tests/kernels/backend/operation_bits.h"
#include "tests/kernels/cpu/plain_tiles.h"

namespace sluice::testing {
namespace {

// Of how many rows go by vectors at most.
class AmxBitsTest : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    if (!Supports(InstructionSet::kAvx512Bf16)) {
      GTEST_SKIP() << "weights are unpacked with AVX-512, which this processor lacks";
    }
    PlainTiles::most_few_rows = GetParam();
  }
  void TearDown() override { PlainTiles::most_few_rows = 0; }
};

INSTANTIATE_TEST_SUITE_P(FewRows, AmxBitsTest, ::testing::Values(0, kMostFewRows));

TEST_P(AmxBitsTest, AreThoseOfTheRecord) {
  const auto backend = MakeCpuBackend({.num_threads = 1, .instructions = InstructionSet::kAmxBf16});
  const Record record = ReadRecord();
  const auto recorded = record.find(std::string(backend->name()));
  ASSERT_NE(recorded, record.end()) << backend->name();
  for (const auto& [operation, hash] : BitsOf(*backend)) {
    const auto known = recorded->second.find(operation);
    ASSERT_NE(known, recorded->second.end()) << operation;
    EXPECT_EQ(hash, known->second) << operation;
  }
}

}  // namespace
}  // namespace sluice::testing
