// Large products in a pipeline against the same instructions without one: bit for bit, in every
// format, wherever a product's shape leaves something over.
#include <gtest/gtest.h>

#include <string>

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

struct Case {
  WeightFormat format;
  DType dtype;  // of activations
  ActivationFormat activations = ActivationFormat::kOperand;

  bool multiplies_fp8() const { return activations == ActivationFormat::kFp8; }
};

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  if (info.param.multiplies_fp8()) return "FP8_FP8";
  return std::string(Name(info.param.format)) + "_" +
         (info.param.dtype == DType::kF32 ? "F32" : "BF16");
}

class PipelinedGemmTest : public ::testing::TestWithParam<Case> {
 protected:
  // As many units of K in pairs.
  static int64_t InputsOf(const Shape& shape) {
    return GetParam().multiplies_fp8() ? 2 * shape.inputs : shape.inputs;
  }

  static HostMatrix Multiply(const Shape& shape, bool without_pipeline) {
    const Case& operands = GetParam();
    const auto backend = NewGpuOnHost({.num_multiprocessors = shape.multiprocessors,
                                       .products = GpuProducts::kFp8,
                                       .without_pipeline = without_pipeline});
    Random random(7);
    const HostMatrix w = RandomMatrix(random, shape.outputs, InputsOf(shape));
    const auto packed = Pack(*backend, w,
                             PackSpec{.format = {operands.format, operands.activations},
                                      .num_slices = shape.slices,
                                      .gated = shape.gated});
    const DeviceMatrix x(*backend, RandomMatrix(random, shape.rows, InputsOf(shape)), 8,
                         operands.dtype);
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
  for (const Shape& shape : kShapes) {
    auto runs = cuda::RunsOf(InputsOf(shape), shape.slices);
    auto format = cuda::ImageFormatOf(GetParam().format);
    if (GetParam().multiplies_fp8()) {
      runs = cuda::InPairs(runs);
      format = cuda::ImageFormat::kFp8Pairs;
    }
    const auto plan = PlanGemm(shape.rows, cuda::NumTiles(shape.outputs, shape.gated), runs, format,
                               {shape.multiprocessors, 227 << 10, GemmPath::kPipelined});
    ASSERT_EQ(plan.path, GemmPath::kPipelined) << shape.name;
    EXPECT_EQ(plan.splits, shape.splits) << shape.name;
    EXPECT_TRUE(SameBits(Multiply(shape, false), Multiply(shape, true))) << shape.name;
  }
}

// Activations of either kind for one format; weights of each kind for one.
INSTANTIATE_TEST_SUITE_P(Formats, PipelinedGemmTest,
                         ::testing::Values(Case{WeightFormat::kBF16, DType::kBF16},
                                           Case{WeightFormat::kBF16, DType::kF32},
                                           Case{WeightFormat::kInt8, DType::kBF16},
                                           Case{WeightFormat::kInt4, DType::kBF16},
                                           Case{WeightFormat::kFp8, DType::kBF16},
                                           Case{WeightFormat::kFp8, DType::kBF16,
                                                ActivationFormat::kFp8}),
                         NameOf);

}  // namespace
}  // namespace sluice::testing
