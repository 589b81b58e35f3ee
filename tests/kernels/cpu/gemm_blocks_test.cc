// Products of so many rows that they are multiplied in several blocks, with so many panels that
// groups of them take turns with the blocks: rows must have the bits that they have alone.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/instruction_set.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

using Parameters = std::tuple<InstructionSet, WeightFormat>;

class GemmBlocksTest : public ::testing::TestWithParam<Parameters> {
 protected:
  HostMatrix Multiply(int num_threads, const HostMatrix& x, const HostMatrix& w, int num_slices) {
    const auto backend = MakeCpuBackend(
        {.num_threads = num_threads, .instructions = std::get<InstructionSet>(GetParam())});
    const auto packed = Pack(*backend, w, std::get<WeightFormat>(GetParam()), num_slices);
    const DeviceMatrix in(*backend, x);
    DeviceMatrix out(*backend, x.rows, w.rows);
    backend->Gemm(in.view(), *packed, out.view());
    return out.Read();
  }
};

std::vector<float> RowOf(const HostMatrix& matrix, int64_t row) {
  const auto begin = matrix.values.begin() + row * matrix.cols;
  return {begin, begin + matrix.cols};
}

TEST_P(GemmBlocksTest, RowsHaveTheBitsTheyHaveAlone) {
  constexpr int64_t kRows = 337, kOutputs = 560;
  Random random(1);
  // 4,000 of them, of which a slice fills no whole tiles.
  for (const auto& [num_inputs, num_slices] : {std::pair{4096, 1}, {4096, 8}, {4000, 8}}) {
    if (IsQuantized(std::get<WeightFormat>(GetParam())) && num_inputs == 4000) continue;
    const HostMatrix x = RandomMatrix(random, kRows, num_inputs);
    const HostMatrix w = RandomMatrix(random, kOutputs, num_inputs);
    const HostMatrix together = Multiply(3, x, w, num_slices);
    EXPECT_EQ(together.values, Multiply(1, x, w, num_slices).values);
    for (const auto& [begin, count] : {std::pair{0, 1}, {15, 2}, {127, 17}, {160, 33}, {336, 1}}) {
      const HostMatrix few = Multiply(2, x.Rows(begin, count), w, num_slices);
      for (int64_t row = 0; row < count; ++row) {
        ASSERT_EQ(RowOf(few, row), RowOf(together, begin + row))
            << "row " << begin + row << " among " << count << ", " << num_inputs << " inputs, "
            << num_slices << " slices";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, GemmBlocksTest,
    ::testing::Combine(::testing::ValuesIn(SupportedInstructionSets()),
                       ::testing::Values(WeightFormat::kF32, WeightFormat::kBF16,
                                         WeightFormat::kInt8, WeightFormat::kInt6,
                                         WeightFormat::kInt4, WeightFormat::kFp8)),
    [](const auto& info) {
      return std::string(Name(std::get<0>(info.param))) + "_" +
             std::string(Name(std::get<1>(info.param)));
    });

}  // namespace
}  // namespace sluice::testing
