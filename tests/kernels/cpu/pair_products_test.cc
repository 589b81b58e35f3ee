// The two ways of multiplying pairs of bfloat16 numbers have the same bits, for every format, number of
// rows and width, subnormal numbers included.
#include "kernels/cpu/pair_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/gemm_kernel.h"
#include "kernels/dtype.h"
#include "kernels/weight_format.h"

namespace sluice {
namespace {

using Random = std::mt19937;

// About 2^exponent, and now and then anything smaller.
float Number(Random& random, int exponent) {
  const int below = random() % 4 == 0 ? static_cast<int>(random() % 40) : 0;
  return std::ldexp(std::normal_distribution<float>()(random), exponent - below);
}

// A slice of a panel of weights and rows of activations, as kernels take them.
class Slice {
 public:
  // Activations are about 2^exponent.
  Slice(WeightFormat format, int64_t rows, int64_t width, int64_t depth, int exponent)
      : format_(format),
        kernel_(Avx512Bf16GemmKernel(format, PairProducts::kInstruction)),
        rows_(rows),
        width_(width),
        depth_(depth) {
    Random random(static_cast<unsigned>(rows * 1000 + width + depth));
    PackWeights(random);
    x_.resize(rows * depth);
    for (uint16_t& element : x_) element = BFloat16FromFloat(Number(random, exponent));
    x_sums_.resize(rows * depth / kWeightGroup);
    for (float& sum : x_sums_) sum = Number(random, exponent);
  }

  std::vector<uint32_t> Multiply(PairProducts products) {
    const int64_t tiles = (rows_ + kernel_.tile_rows - 1) / kernel_.tile_rows;
    std::vector<float> sums(rows_ * kPanelWidth, -1.0f);
    Avx512Bf16GemmKernel(format_, products)
        .multiply({.x = x_.data(),
                   .x_stride = depth_,
                   .tile_rows = (rows_ + tiles - 1) / tiles,
                   .first_input = 0,
                   .x_sums = x_sums_.data(),
                   .sums_stride = depth_ / kWeightGroup,
                   .rows = rows_,
                   .w = weights_,
                   .depth = depth_,
                   .width = width_,
                   .sums = sums.data(),
                   .unpacked = unpacked_,
                   .ready = [](int64_t, int64_t) {}});
    std::vector<uint32_t> bits(sums.size());
    std::memcpy(bits.data(), sums.data(), sums.size() * sizeof(float));
    return bits;
  }

 private:
  void PackWeights(Random& random) {
    constexpr int kExponents[] = {0, -64, -100};  // of outputs: some products are subnormal numbers
    const size_t row_bytes = RowBytes(format_, depth_);
    std::vector<std::byte> rows(width_ * row_bytes);
    std::vector<float> row(depth_);
    for (int64_t n = 0; n < width_; ++n) {
      const int exponent = kExponents[n % 3];
      std::generate(row.begin(), row.end(), [&] { return Number(random, exponent); });
      EncodeRow(format_, row, absl::MakeSpan(rows).subspan(n * row_bytes, row_bytes));
    }
    const int64_t bytes = kernel_.slice_bytes != nullptr ? kernel_.slice_bytes(width_, depth_)
                                                         : width_ * static_cast<int64_t>(row_bytes);
    memory_.resize(bytes + 64);
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    weights_ = memory_.data() + (64 - address % 64) % 64;
    kernel_.pack({.rows = rows.data(),
                  .row_bytes = row_bytes,
                  .outputs = width_,
                  .width = width_,
                  .depth = depth_,
                  .out = weights_});
  }

  const WeightFormat format_;
  const GemmKernel& kernel_;
  const int64_t rows_, width_, depth_;
  std::vector<std::byte> memory_;
  std::byte* weights_ = nullptr;
  std::vector<uint16_t> x_;
  std::vector<float> x_sums_;
  alignas(64) std::byte unpacked_[kUnpackedBytes];
};

class PairProductsTest : public ::testing::TestWithParam<WeightFormat> {
 protected:
  void SetUp() override {
    if (!Supports(InstructionSet::kAvx512Bf16)) {
      GTEST_SKIP() << "this processor has no instruction that multiplies pairs";
    }
    if (!FloatsHaveBitsOfPairs()) {
      GTEST_SKIP() << "this processor multiplies pairs otherwise, and so never by floats";
    }
  }
};

TEST_P(PairProductsTest, HaveTheSameBitsBothWays) {
  for (const int64_t width : {16, 32}) {
    for (const int64_t depth : {32, 128, 352, 1376}) {
      for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 25, 40}) {
        for (const int exponent : {0, -30, -64, -130}) {
          Slice slice(GetParam(), rows, width, depth, exponent);
          ASSERT_EQ(slice.Multiply(PairProducts::kFloats),
                    slice.Multiply(PairProducts::kInstruction))
              << rows << " rows, " << width << " outputs, " << depth << " inputs about 2^"
              << exponent;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, PairProductsTest,
                         ::testing::Values(WeightFormat::kBF16, WeightFormat::kInt8,
                                           WeightFormat::kInt6, WeightFormat::kInt4,
                                           WeightFormat::kFp8),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace sluice
