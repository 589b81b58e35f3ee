// Products whose runs of K several blocks share: the last of them joins what the others left to the
// bits of one block that has all runs, however many share them.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/products_path.h"
#include "kernels/gpu/gpu_check.h"
#include "tests/kernels/testing/gpu_on_host.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

using cuda::GemmTile;

constexpr int64_t kOutputs = 130;

struct Shape {
  GemmTile tile;
  int64_t rows;  // for which a plan takes it
  int runs;      // large tiles have no room for the sums of more than eight
  int64_t inputs_of_run;

  int64_t inputs() const { return runs * inputs_of_run; }
};

// With kFp8, FP8 activations go with FP8 weights.
using Case = std::tuple<GpuProducts, WeightFormat>;

class SharedRunsTest : public ::testing::TestWithParam<Case> {
 protected:
  static bool MultipliesFp8() { return GetParam() == Case{GpuProducts::kFp8, WeightFormat::kFp8}; }
  // As many units of K in pairs.
  static int64_t InputsOf(const Shape& shape) {
    return MultipliesFp8() ? 2 * shape.inputs() : shape.inputs();
  }
  static cuda::GemmPlan PlanFor(const Shape& shape, int num_multiprocessors) {
    const auto [products, format] = GetParam();
    const cuda::RunShape runs{shape.runs, shape.inputs_of_run};
    const cuda::GemmDevice device{num_multiprocessors, 227 << 10, cuda::PathOf(products)};
    return cuda::PlanGemm(
        shape.rows, cuda::NumTiles(kOutputs, false), runs,
        MultipliesFp8() ? cuda::ImageFormat::kFp8Pairs : cuda::ImageFormatOf(format), device);
  }
  // The fewest multiprocessors for which `splits` blocks share the runs of an output.
  static int MultiprocessorsFor(const Shape& shape, int splits) {
    int count = 1;
    while (count < 1000 && PlanFor(shape, count).splits < splits) ++count;
    EXPECT_EQ(PlanFor(shape, count).splits, splits);
    return count;
  }

  static HostMatrix Multiply(const Shape& shape, int num_multiprocessors) {
    const auto [products, format] = GetParam();
    const auto backend =
        NewGpuOnHost({.num_multiprocessors = num_multiprocessors, .products = products});
    Random random(5);
    const HostMatrix w = RandomMatrix(random, kOutputs, InputsOf(shape));
    const auto packed =
        Pack(*backend, w,
             PackSpec{.format = {format, MultipliesFp8() ? ActivationFormat::kFp8
                                                         : ActivationFormat::kOperand},
                      .num_slices = shape.runs});
    const DeviceMatrix x(*backend, RandomMatrix(random, shape.rows, InputsOf(shape)), 8,
                         DType::kBF16);
    const DeviceMatrix out(*backend, RandomMatrix(random, shape.rows, kOutputs), 3);
    // Twice: the second finds what the first has left.
    for (int i = 0; i < 2; ++i) {
      backend->Gemm(x.view(), *packed, out.view(), {.add_to_out = true});
    }
    return out.Read();
  }
};

TEST_P(SharedRunsTest, HaveTheBitsOfOneBlock) {
  for (const Shape& shape : {Shape{GemmTile::kDecode, 3, 32, 64},
                             {GemmTile::kMiddle, 20, 32, 64},
                             {GemmTile::kLarge, 70, 8, 256}}) {
    ASSERT_EQ(PlanFor(shape, 1).splits, 1);
    const HostMatrix expected = Multiply(shape, 1);
    for (int splits = 2; splits <= shape.runs; splits *= 2) {
      const int count = MultiprocessorsFor(shape, splits);
      ASSERT_EQ(PlanFor(shape, count).tile, shape.tile);
      EXPECT_TRUE(SameBits(Multiply(shape, count), expected)) << shape.rows << " rows, " << splits;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Products, SharedRunsTest,
                         ::testing::Values(Case{GpuProducts::kPortable, WeightFormat::kBF16},
                                           Case{GpuProducts::kHopper, WeightFormat::kBF16},
                                           Case{GpuProducts::kPipelined, WeightFormat::kBF16},
                                           Case{GpuProducts::kPipelined, WeightFormat::kInt8},
                                           Case{GpuProducts::kFp8, WeightFormat::kFp8}),
                         [](const auto& info) {
                           return Name(std::get<0>(info.param)) + "_" +
                                  std::string(Name(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace sluice::testing
