// The image of activations that the kernel writes, against one written element by element: from F32 and
// from BF16, wherever rows begin, however runs end.
#include "kernels/cuda/token_image.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/dtype.h"
#include "tests/gpu/host/host_gpu.h"

namespace sluice::cuda {
namespace {

struct Case {
  const char* name;
  int64_t rows;
  RunShape runs;
  int64_t first;   // element that the matrix begins at, from a multiple of 16 bytes
  int64_t beyond;  // elements between rows
};

constexpr Case kCases[] = {
    {"whole", 3, {2, 128}, 0, 0},
    {"a block of tokens and one more", kImageTokens + 1, {1, 64}, 0, 0},
    {"runs that end within a unit, at pieces", 5, {3, 96}, 0, 0},
    {"runs that end within a piece", 5, {2, 77}, 0, 0},
    {"runs of less than a piece", 4, {2, 5}, 0, 0},
    {"begins elsewhere", 4, {2, 128}, 1, 0},
    {"half a load further", 4, {2, 128}, 4, 0},
    {"every other row begins elsewhere", 6, {2, 64}, 0, 4},
    {"no row but the first begins at a load", 6, {2, 64}, 0, 1},
};

// Not all are numbers of BF16; some lie half way between two.
std::vector<float> Values(int64_t count) {
  std::mt19937 random(11);
  std::vector<float> values(count);
  for (float& value : values) {
    value = (static_cast<float>(random() % 4097) - 2048.0f) / 256.0f;
  }
  return values;
}

class TokenImageTest : public ::testing::TestWithParam<DType> {
 protected:
  static size_t ElementBytes() { return GetParam() == DType::kF32 ? 4 : 2; }

  // The matrix in the device's memory, beside elements that are NaN.
  MatrixView Write(const Case& one, const std::vector<float>& values) {
    const int64_t cols = one.runs.num_runs * one.runs.depth, stride = cols + one.beyond;
    const size_t bytes = (one.first + one.rows * stride) * ElementBytes();
    auto* const memory = static_cast<std::byte*>(*gpu_->Allocate(bytes));
    std::memset(memory, 0xff, bytes);
    std::byte* const begin = memory + one.first * ElementBytes();
    for (int64_t row = 0; row < one.rows; ++row) {
      for (int64_t col = 0; col < cols; ++col) {
        const float value = values[row * cols + col];
        const uint16_t rounded = BFloat16FromFloat(value);
        const void* const from = GetParam() == DType::kF32 ? static_cast<const void*>(&value)
                                                           : static_cast<const void*>(&rounded);
        std::memcpy(begin + (row * stride + col) * ElementBytes(), from, ElementBytes());
      }
    }
    memory_ = memory;
    return {begin, GetParam(), one.rows, cols, stride};
  }

  std::vector<uint16_t> Image(const Case& one, const MatrixView& x) {
    const int64_t bytes = TokenImageBytes(one.rows, one.runs.num_runs * one.runs.padded_depth());
    auto* const image = static_cast<std::byte*>(*gpu_->Allocate(bytes));
    gpu_->kernels().token_image(gpu_->stream(), {.x = x, .image = image, .runs = one.runs});
    const auto event = gpu_->NewEvent();
    gpu_->Record(*event);
    EXPECT_TRUE(gpu_->Wait(*event, Deadline::Never()).ok());
    std::vector<uint16_t> elements(bytes / 2);
    std::memcpy(elements.data(), image, bytes);
    gpu_->Free(image);
    gpu_->Free(memory_);
    return elements;
  }

  static std::vector<uint16_t> Expected(const Case& one, const std::vector<float>& values) {
    const RunShape& runs = one.runs;
    const int64_t num_units = runs.units() * runs.num_runs;
    std::vector<uint16_t> image(TokenImageBytes(one.rows, runs.num_runs * runs.padded_depth()) / 2);
    for (int64_t row = 0; row < one.rows; ++row) {
      for (int64_t run = 0; run < runs.num_runs; ++run) {
        for (int64_t k = 0; k < runs.depth; ++k) {
          const int64_t col = run * runs.padded_depth() + k;
          image[TokenPiece(row, col / 8, num_units) / 2 + col % 8] =
              BFloat16FromFloat(values[(row * runs.num_runs + run) * runs.depth + k]);
        }
      }
    }
    return image;
  }

  const std::unique_ptr<Gpu> gpu_ = MakeHostGpu();
  void* memory_ = nullptr;
};

TEST_P(TokenImageTest, HasEveryElementAndZeroesBesides) {
  for (const Case& one : kCases) {
    const std::vector<float> values = Values(one.rows * one.runs.num_runs * one.runs.depth);
    EXPECT_EQ(Image(one, Write(one, values)), Expected(one, values)) << one.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, TokenImageTest, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& info) {
                           return info.param == DType::kF32 ? "F32" : "BF16";
                         });

}  // namespace
}  // namespace sluice::cuda
