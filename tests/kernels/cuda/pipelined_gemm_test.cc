// Large products in a pipeline against the same instructions without one: bit for bit, in every
// format, wherever a product's shape leaves something over.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "kernels/cuda/gemm_plan.h"
#include "tests/kernels/testing/gpu_on_host.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

using cuda::GemmPath;

struct Shape {
  const char* name;
  int64_t rows, outputs, inputs;
  int slices;
  bool gated = false;
  int splits = 1;
  int multiprocessors = 2;
};

using Case = std::tuple<WeightFormat, DType>;  // of weights, of activations

class PipelinedGemmTest : public ::testing::TestWithParam<Case> {
 protected:
  static HostMatrix Multiply(GpuProducts products, const Shape& shape, DType dtype,
                             WeightFormat format) {
    const auto backend =
        NewGpuOnHost({.num_multiprocessors = shape.multiprocessors, .products = products});
    Random random(7);
    const HostMatrix w = RandomMatrix(random, shape.outputs, shape.inputs);
    const auto packed = Pack(
        *backend, w, PackSpec{.format = format, .num_slices = shape.slices, .gated = shape.gated});
    const DeviceMatrix x(*backend, RandomMatrix(random, shape.rows, shape.inputs), 8, dtype);
    const int64_t columns = shape.gated ? shape.outputs / 2 : shape.outputs;
    const DeviceMatrix out(*backend, RandomMatrix(random, shape.rows, columns), 3);
    GemmEpilogue epilogue{.add_to_out = true};
    if (shape.gated) epilogue.activation = Activation::kSilu;
    // Twice: the second finds what the first has left.
    for (int i = 0; i < 2; ++i) backend->Gemm(x.view(), *packed, out.view(), epilogue);
    return out.Read();
  }
};

// A product's tokens and outputs in whole tiles, and not; runs of units, and of less; a block more than
// there are outputs for; more units than stages, and fewer; runs that blocks share.
constexpr Shape kShapes[] = {
    {"whole tiles", 256, 256, 1024, 4},
    {"outputs and tokens left over", 130, 300, 512, 2},
    {"one block of outputs too few", 200, 120, 256, 1},
    {"gates and ups", 140, 280, 512, 1, true},
    {"one unit", 140, 260, 64, 1},
    {"runs that are no whole units", 150, 260, 8 * 96, 8},
    {"eight runs", 129, 257, 8 * 128, 8},
    {"blocks that share runs", 128, 256, 8 * 256, 8, false, 2, 4},
    {"and one without outputs", 128, 128, 8 * 256, 8, false, 2},
};

TEST_P(PipelinedGemmTest, HasTheBitsOfTheSameInstructionsWithoutOne) {
  const auto [format, dtype] = GetParam();
  for (const Shape& shape : kShapes) {
    const auto runs = cuda::RunsOf(shape.inputs, shape.slices);
    const auto plan = PlanGemm(shape.rows, cuda::NumTiles(shape.outputs, shape.gated), runs, format,
                               {shape.multiprocessors, 227 << 10, GemmPath::kPipelined});
    ASSERT_EQ(plan.path, GemmPath::kPipelined) << shape.name;
    EXPECT_EQ(plan.splits, shape.splits) << shape.name;
    EXPECT_TRUE(SameBits(Multiply(GpuProducts::kPipelined, shape, dtype, format),
                         Multiply(GpuProducts::kHopper, shape, dtype, format)))
        << shape.name;
  }
}

// Activations of either kind for one format; weights of each kind for one.
INSTANTIATE_TEST_SUITE_P(Formats, PipelinedGemmTest,
                         ::testing::Values(Case{WeightFormat::kBF16, DType::kBF16},
                                           Case{WeightFormat::kBF16, DType::kF32},
                                           Case{WeightFormat::kInt8, DType::kBF16},
                                           Case{WeightFormat::kInt4, DType::kBF16},
                                           Case{WeightFormat::kFp8, DType::kBF16}),
                         [](const auto& info) {
                           return std::string(Name(std::get<0>(info.param))) + "_" +
                                  (std::get<1>(info.param) == DType::kF32 ? "F32" : "BF16");
                         });

}  // namespace
}  // namespace sluice::testing
