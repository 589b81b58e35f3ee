// The products on tiles, with the unit as the manual words it in place of the processor's: they are
// tested on machines without one. Where there is one, the tests of the backend run on it, too.
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/gemm_amx-inl.h"
#include "kernels/cpu/gemm_amx_quantized-inl.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/dtype.h"
#include "tests/kernels/cpu/plain_tiles.h"

namespace sluice {
namespace {

// Where element (r, k) lies in rows of `depth` inputs laid out as blocks.
int64_t InBlocks(int64_t r, int64_t k, int64_t depth) {
  return r / 16 * 16 * depth + k / 32 * 16 * 32 + r % 16 * 32 + k % 32;
}

constexpr int64_t kRows = 256;  // of sums

float Element(std::mt19937& random) {
  return FloatFromBFloat16(BFloat16FromFloat(std::normal_distribution<float>()(random)));
}

// The second slice of two, of a panel of `width` outputs.
void CheckPanel(int64_t rows, int64_t width, int64_t depth) {
  SCOPED_TRACE(::testing::Message() << rows << " rows, " << width << " outputs, " << depth);
  std::mt19937 random(static_cast<unsigned>(rows * 1000 + width + depth));
  const int64_t padded_rows = (rows + 15) / 16 * 16;
  std::vector<uint16_t> x(padded_rows * 2 * depth), w(depth * width);
  for (uint16_t& each : x) each = BFloat16FromFloat(Element(random));
  for (uint16_t& each : w) each = BFloat16FromFloat(Element(random));
  constexpr float kUntouched = 12345;
  std::vector<float> sums(kRows * kPanelWidth, kUntouched);
  int64_t rows_ready = 0;
  const auto ready = [&](int64_t row, int64_t count) {
    EXPECT_EQ(row, rows_ready);
    for (int64_t n = 0; n < width; ++n) EXPECT_NE(sums[row * kPanelWidth + n], kUntouched);
    rows_ready += count;
  };
  AmxGemm<PlainTiles>::Multiply({.x = x.data(),
                                 .x_stride = 2 * depth,
                                 .tile_rows = 1,
                                 .first_input = depth,
                                 .rows = rows,
                                 .w = reinterpret_cast<const std::byte*>(w.data()),
                                 .depth = depth,
                                 .width = width,
                                 .sums = sums.data(),
                                 .ready = ready});
  EXPECT_FALSE(PlainTiles::begun);
  EXPECT_EQ(rows_ready, rows);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < width; ++n) {
      double expected = 0;
      for (int64_t k = 0; k < depth; ++k) {
        expected += double{FloatFromBFloat16(x[InBlocks(r, depth + k, 2 * depth)])} *
                    FloatFromBFloat16(w[(k / 2 * width + n) * 2 + k % 2]);
      }
      ASSERT_NEAR(sums[r * kPanelWidth + n], expected, 1e-5 * std::sqrt(depth) * 10)
          << "row " << r << ", output " << n;
    }
  }
  for (size_t i = (rows + 15) / 16 * 16 * kPanelWidth; i < sums.size(); ++i)
    ASSERT_EQ(sums[i], kUntouched);
}

TEST(AmxGemm, SumsOfAllShapesOfPanelsAndRows) {
  for (const int64_t rows : {1, 2, 15, 16, 17, 31, 32, 33, 48, 63, 96, 200}) {
    for (const int64_t width : {16, 32}) {
      for (const int64_t depth : {32, 64, 320, 1056}) CheckPanel(rows, width, depth);
    }
  }
}

// Weights of `width` outputs, packed as the vectors' kernel has them, and their exact values.
struct QuantizedPanel {
  std::vector<std::byte> packed;
  std::vector<float> exact;  // [width, depth]
};

QuantizedPanel RandomPanel(std::mt19937& random, WeightFormat format, int64_t width,
                           int64_t depth) {
  const size_t row_bytes = RowBytes(format, depth);
  std::vector<std::byte> rows(width * row_bytes);
  const GemmKernel& kernel = GemmKernelFor(InstructionSet::kAmxBf16, format);
  QuantizedPanel panel{std::vector<std::byte>(kernel.slice_bytes(width, depth)),
                       std::vector<float>(width * depth)};
  for (int64_t n = 0; n < width; ++n) {
    const auto exact = absl::MakeSpan(panel.exact).subspan(n * depth, depth);
    for (float& weight : exact) weight = std::normal_distribution<float>()(random);
    const auto row = absl::MakeSpan(rows).subspan(n * row_bytes, row_bytes);
    EncodeRow(format, exact, row);
    DecodeRow(format, row, exact);
  }
  kernel.pack({.rows = rows.data(),
               .row_bytes = row_bytes,
               .outputs = width,
               .width = width,
               .depth = depth,
               .out = panel.packed.data()});
  return panel;
}

template <WeightFormat kFormat>
void CheckQuantizedPanel(int64_t rows, int64_t width, int64_t depth) {
  SCOPED_TRACE(::testing::Message()
               << Name(kFormat) << ", " << rows << " rows, " << width << " outputs, " << depth);
  std::mt19937 random(static_cast<unsigned>(rows * 1000 + width + depth));
  const QuantizedPanel panel = RandomPanel(random, kFormat, width, depth);
  std::vector<uint16_t> x((rows + 15) / 16 * 16 * 2 * depth);
  for (uint16_t& each : x) each = BFloat16FromFloat(Element(random));
  constexpr float kUntouched = 12345;
  std::vector<float> sums(kRows * kPanelWidth, kUntouched);
  alignas(64) std::byte unpacked[kUnpackedBytes];
  int64_t rows_ready = 0;
  const auto ready = [&](int64_t row, int64_t count) {
    EXPECT_EQ(row, rows_ready);
    rows_ready += count;
  };
  AmxQuantizedGemm<PlainTiles, kFormat>::Multiply({.x = x.data(),
                                                   .x_stride = 2 * depth,
                                                   .tile_rows = 1,
                                                   .first_input = depth,
                                                   .rows = rows,
                                                   .w = panel.packed.data(),
                                                   .depth = depth,
                                                   .width = width,
                                                   .sums = sums.data(),
                                                   .unpacked = unpacked,
                                                   .ready = ready});
  EXPECT_EQ(rows_ready, rows);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < width; ++n) {
      double expected = 0;
      for (int64_t k = 0; k < depth; ++k) {
        expected += double{FloatFromBFloat16(x[InBlocks(r, depth + k, 2 * depth)])} *
                    panel.exact[n * depth + k];
      }
      ASSERT_NEAR(sums[r * kPanelWidth + n], expected, 1e-4 * std::sqrt(depth))
          << "row " << r << ", output " << n;
    }
  }
  for (size_t i = (rows + 15) / 16 * 16 * kPanelWidth; i < sums.size(); ++i)
    ASSERT_EQ(sums[i], kUntouched);
}

// Tiles are those of this test; what unpacks for them is the real thing.
TEST(AmxQuantizedGemm, SumsOfAllShapesOfPanelsAndRows) {
  if (!Supports(InstructionSet::kAvx512Bf16)) {
    GTEST_SKIP() << "weights are unpacked with AVX-512, which this processor lacks";
  }
  for (const int64_t rows : {1, 15, 16, 17, 32, 33, 96}) {
    for (const int64_t width : {16, 32}) {
      for (const int64_t depth : {32, 64, 576}) {
        CheckQuantizedPanel<WeightFormat::kInt8>(rows, width, depth);
        CheckQuantizedPanel<WeightFormat::kInt6>(rows, width, depth);
        CheckQuantizedPanel<WeightFormat::kInt4>(rows, width, depth);
        CheckQuantizedPanel<WeightFormat::kFp8>(rows, width, depth);
      }
    }
  }
}

// Of a product in which so many rows, at most, go by vectors.
template <class Gemm>
std::vector<float> SumsOf(SliceRun run, int64_t most_few_rows) {
  std::vector<float> sums(kRows * kPanelWidth);
  run.sums = sums.data();
  PlainTiles::most_few_rows = most_few_rows;
  Gemm::Multiply(run);
  PlainTiles::most_few_rows = 0;
  sums.resize(run.rows * kPanelWidth);
  return sums;
}

// Numbers of all magnitudes whose products are finite, zeroes and subnormal ones among them.
uint16_t AnyFinite(std::mt19937& random) {
  const uint32_t exponent = random() % 16 == 0 ? random() % 2 : 64 + random() % 112;
  return static_cast<uint16_t>((random() & 0x807f) | exponent << 7);
}

template <class Gemm>
void ExpectSameBits(const SliceRun& run) {
  const std::vector<float> on_tiles = SumsOf<Gemm>(run, 0);
  const std::vector<float> by_vectors = SumsOf<Gemm>(run, kMostFewRows);
  for (size_t i = 0; i < on_tiles.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(by_vectors[i]), std::bit_cast<uint32_t>(on_tiles[i]))
        << run.rows << " rows, " << run.width << " outputs, " << run.depth << ", sum " << i;
  }
}

template <WeightFormat kFormat>
void ExpectSameQuantizedBits(int64_t rows, int64_t width, int64_t depth) {
  std::mt19937 random(static_cast<unsigned>(rows * 1000 + width + depth));
  const QuantizedPanel panel = RandomPanel(random, kFormat, width, depth);
  std::vector<uint16_t> x(16 * depth);
  for (uint16_t& each : x) each = BFloat16FromFloat(Element(random));
  alignas(64) std::byte unpacked[kUnpackedBytes];
  ExpectSameBits<AmxQuantizedGemm<PlainTiles, kFormat>>({.x = x.data(),
                                                         .x_stride = depth,
                                                         .tile_rows = 1,
                                                         .first_input = 0,
                                                         .rows = rows,
                                                         .w = panel.packed.data(),
                                                         .depth = depth,
                                                         .width = width,
                                                         .unpacked = unpacked,
                                                         .ready = [](int64_t, int64_t) {}});
}

class FewRowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Supports(InstructionSet::kAvx512Bf16)) {
      GTEST_SKIP() << "few rows go by AVX-512, which this processor lacks";
    }
  }
  void TearDown() override { PlainTiles::fault = TileFault::kNone; }
};

TEST_F(FewRowsTest, HaveTheBitsOfTiles) {
  std::mt19937 random(7);
  for (const int64_t depth : {32, 64, 320, 1056}) {
    for (const int64_t width : {16, 32}) {
      std::vector<uint16_t> x(16 * depth), w(depth * width);
      for (uint16_t& each : x) each = AnyFinite(random);
      for (uint16_t& each : w) each = AnyFinite(random);
      for (int64_t rows = 1; rows <= kMostFewRows + 1; ++rows) {
        ExpectSameBits<AmxGemm<PlainTiles>>({.x = x.data(),
                                             .x_stride = depth,
                                             .tile_rows = 1,
                                             .first_input = 0,
                                             .rows = rows,
                                             .w = reinterpret_cast<const std::byte*>(w.data()),
                                             .depth = depth,
                                             .width = width,
                                             .ready = [](int64_t, int64_t) {}});
      }
    }
  }
}

TEST_F(FewRowsTest, OfQuantizedWeightsHaveTheBitsOfTiles) {
  for (const int64_t rows : {1, 2, 3, 4, 5}) {
    for (const int64_t width : {16, 32}) {
      for (const int64_t depth : {32, 64, 576}) {
        ExpectSameQuantizedBits<WeightFormat::kInt8>(rows, width, depth);
        ExpectSameQuantizedBits<WeightFormat::kInt6>(rows, width, depth);
        ExpectSameQuantizedBits<WeightFormat::kInt4>(rows, width, depth);
        ExpectSameQuantizedBits<WeightFormat::kFp8>(rows, width, depth);
      }
    }
  }
}

TEST_F(FewRowsTest, AreHeldToTheUnitAtStart) {
  EXPECT_TRUE(FewRowsHaveBitsOf<PlainTiles>());
  for (const TileFault fault : {TileFault::kLastRowIsLost, TileFault::kPairsAreCrossed,
                                TileFault::kSumsAreInOrder, TileFault::kLastPairIsLost}) {
    PlainTiles::fault = fault;
    EXPECT_FALSE(FewRowsHaveBitsOf<PlainTiles>()) << static_cast<int>(fault);
  }
}

TEST_F(FewRowsTest, HaveTheBitsOfThisProcessorsTiles) {
  if (!Supports(InstructionSet::kAmxBf16)) GTEST_SKIP() << "this processor has no tiles";
  EXPECT_TRUE(VectorsHaveBitsOfTiles());
}

}  // namespace
}  // namespace sluice
