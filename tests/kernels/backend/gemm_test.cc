#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/fp8_activations.h"
#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/tensors.h"
#include "tests/kernels/testing/test_backend.h"

namespace sluice::testing {
namespace {

class GemmTest : public BackendTest {
 protected:
  // Whether FP8 numbers are multiplied with each other, and not BF16 ones that have their value.
  static bool MayMultiplyFp8() {
    return GetParam().products == GpuProducts::kFp8 || GetParam().is_device;
  }
  static bool IsGpu() {
    return GetParam().is_gpu || (GetParam().is_device && TestsRoundOperands());
  }
  // Whether the backend rounds weights of the format to BF16, which the reference does not.
  static bool RoundsWeights(const PackSpec& spec) {
    return IsPublished(spec.format.weights) && IsGpu();
  }
  // How far such a product may be off, relative to a typical one. A slice of weights has one scale
  // then; and GPUs keep sums of FP8 products to 13 bits of a fraction, by which published models of
  // Hopper predict 5e-3 (tests/gpu/emulator/machine/tensor_sum.h).
  static double Fp8Tolerance() { return GetParam().is_device ? 8e-3 : 2e-5; }
};
SLUICE_FOR_ALL_PRODUCTS(GemmTest);

constexpr MatrixFormat kFp8OfFp8(WeightFormat::kFp8, ActivationFormat::kFp8);

// What is multiplied: weights of every format, and those of FP8 with inputs of FP8.
const std::vector<PackSpec> kOperands = [] {
  std::vector<PackSpec> operands;
  for (const MatrixFormat& format : MatrixFormats()) operands.push_back({.format = format});
  return operands;
}();

PackSpec InSlices(PackSpec spec, int num_slices) {
  spec.num_slices = num_slices;
  return spec;
}

std::string NameOf(const PackSpec& spec) {
  const bool rounds = spec.format.activations == ActivationFormat::kFp8;
  return std::string(Name(spec.format.weights)) + (rounds ? " with FP8 inputs" : "");
}

HostMatrix Multiply(Backend& backend, const HostMatrix& x, const PackedMatrix& weights,
                    int64_t padding = 0) {
  DeviceMatrix in(backend, x, padding);
  DeviceMatrix out(backend, x.rows, weights.num_outputs(), padding);
  backend.Gemm(in.view(), weights, out.view());
  return out.Read();
}

TEST_P(GemmTest, AgreesWithReference) {
  Random random(1);
  for (int i = 0; i < 60; ++i) {
    const int64_t rows = RandomInt(random, 1, i % 10 == 0 ? 200 : 20);
    const int64_t outputs = RandomInt(random, 1, 200);
    const PackSpec& spec = kOperands[i % std::size(kOperands)];
    if (RoundsWeights(spec)) continue;
    const int64_t group = TraitsOf(spec.format.weights).group;
    const int64_t inputs = group * RandomInt(random, 1, group == 1 ? 700 : 30);
    const int64_t padding = RandomInt(random, 0, 5);
    SCOPED_TRACE(::testing::Message() << "[" << rows << ", " << inputs << "] x [" << outputs << ", "
                                      << inputs << "] " << NameOf(spec));
    const HostMatrix x = RandomMatrix(random, rows, inputs);
    const HostMatrix w = RandomMatrix(random, outputs, inputs);
    const HostMatrix actual = Multiply(backend(), x, *Pack(backend(), w, spec), padding);
    const HostMatrix expected = Multiply(reference(), x, *Pack(reference(), w, spec));
    // Elements of deviation sqrt(K), summed one by one in floats.
    const double tolerance = spec.format == kFp8OfFp8 && MayMultiplyFp8()
                                 ? Fp8Tolerance()
                                 : 1e-6 * std::log2(static_cast<double>(inputs) + 2);
    EXPECT_TRUE(IsNear(actual, expected, tolerance * std::sqrt(inputs)));
  }
}

// One output as the contract words it, with or without fusing.
template <class MultiplyAdd>
HostMatrix InContractOrder(const HostMatrix& x, const HostMatrix& w, int num_slices,
                           MultiplyAdd multiply_add) {
  HostMatrix out(x.rows, w.rows);
  const int64_t depth = x.cols / num_slices;
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t n = 0; n < w.rows; ++n) {
      std::vector<float> sums(num_slices);
      for (int64_t k = 0; k < x.cols; ++k) {
        sums[k / depth] = multiply_add(x.At(t, k), w.At(n, k), sums[k / depth]);
      }
      for (; sums.size() > 1; sums.resize(sums.size() / 2)) {
        for (size_t i = 0; i < sums.size() / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
      }
      out.At(t, n) = sums[0];
    }
  }
  return out;
}

TEST_P(GemmTest, AddsInTheOrderOfTheContract) {
  Random random(2);
  for (const int num_slices : {1, 2, 4, 8, 16}) {
    const HostMatrix x = RandomMatrix(random, 9, 16 * 21);
    const HostMatrix w = RandomMatrix(random, 83, 16 * 21);
    const HostMatrix actual =
        Multiply(backend(), x, *Pack(backend(), w, WeightFormat::kF32, num_slices));
    const auto fused = [](float a, float b, float c) { return std::fma(a, b, c); };
    const auto unfused = [](float a, float b, float c) { return a * b + c; };
    EXPECT_TRUE(SameBits(actual, InContractOrder(x, w, num_slices, fused)) ||
                SameBits(actual, InContractOrder(x, w, num_slices, unfused)))
        << num_slices << " slices";
  }
}

TEST_P(GemmTest, RowsDoNotDependOnEachOther) {
  Random random(3);
  for (const PackSpec& spec : kOperands) {
    SCOPED_TRACE(NameOf(spec));
    const int64_t group = std::max<int64_t>(32, TraitsOf(spec.format.weights).group);
    const HostMatrix x = RandomMatrix(random, 205, 8 * group * 3);
    const auto w = Pack(backend(), RandomMatrix(random, 150, x.cols), InSlices(spec, 8));
    const HostMatrix together = Multiply(backend(), x, *w);
    for (int64_t row = 0; row < x.rows;) {
      const int64_t count = std::min(x.rows - row, RandomInt(random, 1, 14));
      EXPECT_TRUE(SameBits(Multiply(backend(), x.Rows(row, count), *w), together.Rows(row, count)))
          << count << " rows from " << row;
      row += count;
    }
  }
}

TEST_P(GemmTest, ThreadsDoNotMatter) {
  Random random(4);
  const HostMatrix w = RandomMatrix(random, 500, 320);
  for (const int64_t rows : {1, 7, 130}) {
    const HostMatrix x = RandomMatrix(random, rows, w.cols);
    const HostMatrix expected = Multiply(backend(), x, *Pack(backend(), w, WeightFormat::kF32, 4));
    for (const int num_threads : {1, 2, 4}) {
      const auto other = NewBackend(num_threads);
      EXPECT_TRUE(SameBits(Multiply(*other, x, *Pack(*other, w, WeightFormat::kF32, 4)), expected))
          << num_threads << " threads, " << rows << " rows";
    }
  }
}

TEST_P(GemmTest, BFloat16WeightsMeetActivationsRoundedToBFloat16) {
  Random random(5);
  for (const int64_t rows : {1, 5, 40}) {
    const HostMatrix x = RandomMatrix(random, rows, 600);
    const auto w = Pack(backend(), RandomMatrix(random, 100, 600), WeightFormat::kBF16);
    EXPECT_TRUE(
        SameBits(Multiply(backend(), x, *w), Multiply(backend(), RoundedToBFloat16(x), *w)));
  }
}

float LargestOf(const HostMatrix& matrix) {
  float largest = 0;
  for (const float value : matrix.values) largest = std::max(largest, std::abs(value));
  return largest;
}

// FP8 weights are BF16 numbers.
TEST_P(GemmTest, Fp8WeightsMultiplyAsTheNumbersTheyAre) {
  Random random(11);
  for (const int64_t rows : {1, 5, 140}) {
    const HostMatrix x = RandomMatrix(random, rows, 640);
    HostMatrix w = RandomMatrix(random, 100, 640, 0.03F);
    // Of every size: subnormal codes, too, and some that become zero.
    for (size_t i = 0; i < w.values.size(); ++i)
      w.values[i] *= std::exp2(-static_cast<float>(i % 21));
    HostMatrix numbers = w;
    std::vector<std::byte> bytes(RowBytes(WeightFormat::kFp8, w.cols));
    for (int64_t n = 0; n < w.rows; ++n) {
      const auto row = absl::MakeSpan(numbers.values).subspan(n * w.cols, w.cols);
      EncodeRow(WeightFormat::kFp8, row, absl::MakeSpan(bytes));
      DecodeRow(WeightFormat::kFp8, bytes, row);
    }
    const HostMatrix fp8 = Multiply(backend(), x, *Pack(backend(), w, WeightFormat::kFp8, 2));
    const HostMatrix bf16 =
        Multiply(backend(), x, *Pack(backend(), numbers, WeightFormat::kBF16, 2));
    // On GPUs by the very same instructions.
    if (GetParam().is_gpu || (GetParam().is_device && TestsRoundOperands())) {
      EXPECT_TRUE(SameBits(fp8, bf16)) << rows << " rows";
    } else {
      EXPECT_TRUE(IsNear(fp8, bf16, 1e-5)) << rows << " rows";
    }
  }
}

// What FP8 weights give with inputs that were rounded before, whatever their size.
TEST_P(GemmTest, InputsBecomeFp8NumbersBySlice) {
  Random random(12);
  constexpr int kSlices = 4, kDepth = 96;
  const PackSpec plain{.format = WeightFormat::kFp8, .num_slices = kSlices};
  PackSpec rounding = plain;
  rounding.format = kFp8OfFp8;
  const HostMatrix w = RandomMatrix(random, 70, kSlices * kDepth);
  const auto plainly = Pack(backend(), w, plain), rounded = Pack(backend(), w, rounding);
  for (const int64_t rows : {1, 5, 140}) {
    HostMatrix x = RandomMatrix(random, rows, w.cols), numbers = x;
    for (int64_t t = 0; t < rows; ++t) {
      for (int slice = 0; slice < kSlices; ++slice) {
        const auto of = absl::MakeSpan(x.values).subspan(t * x.cols + slice * kDepth, kDepth);
        for (float& value : of) value *= std::exp2(static_cast<float>((t + slice) % 30 - 15));
        RoundSliceToFp8(of, &numbers.values[t * x.cols + slice * kDepth]);
      }
    }
    const HostMatrix actual = Multiply(backend(), x, *rounded);
    const HostMatrix expected = Multiply(backend(), numbers, *plainly);
    EXPECT_TRUE(SameBits(actual, Multiply(backend(), numbers, *rounded)));
    if (!MayMultiplyFp8()) {
      EXPECT_TRUE(SameBits(actual, expected));
      continue;
    }
    for (int64_t t = 0; t < rows; ++t) {
      const HostMatrix row = expected.Rows(t, 1);
      EXPECT_TRUE(IsNear(actual.Rows(t, 1), row, Fp8Tolerance() * LargestOf(row)));
    }
  }
}

TEST_P(GemmTest, AnInputThatIsNoNumberStaysInItsRow) {
  Random random(13);
  HostMatrix x = RandomMatrix(random, 3, 128);
  x.At(1, 70) = std::numeric_limits<float>::infinity();
  const auto w =
      Pack(backend(), RandomMatrix(random, 40, 128), {.format = kFp8OfFp8, .num_slices = 2});
  const HostMatrix out = Multiply(backend(), x, *w);
  for (int64_t n = 0; n < out.cols; ++n) {
    EXPECT_TRUE(std::isfinite(out.At(0, n)) && std::isnan(out.At(1, n)) &&
                std::isfinite(out.At(2, n)));
  }
}

TEST_P(GemmTest, AFormatThatIsPackedAsAnotherHasItsBits) {
  Random random(14);
  const bool is_gpu = IsGpu();
  const HostMatrix w = RandomMatrix(random, 70, 256), x = RandomMatrix(random, 20, w.cols);
  for (const WeightFormatTraits& traits : kWeightFormats) {
    const WeightFormat as = is_gpu ? traits.on_gpu : traits.on_cpu;
    if (as == traits.format) continue;
    const PackSpec spec{.num_outputs = w.rows, .num_inputs = w.cols, .format = as, .num_slices = 2};
    std::vector<std::byte> row(RowBytes(traits.format, w.cols));
    std::mutex mutex;
    const auto regrouped =
        backend().Pack(spec, [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
          const std::lock_guard lock(mutex);
          for (int64_t n = begin; n < end; ++n) {
            EncodeRow(traits.format, w.Rows(n, 1).values, absl::MakeSpan(row));
            const size_t bytes = RowBytes(as, w.cols);
            const auto to = out.subspan((n - begin) * bytes, bytes);
            if (IsQuantized(as)) {
              RegroupRows(traits.format, row, as, to);
            } else {
              RecodeRows(traits.format, row, as, w.cols, to);
            }
          }
          return absl::OkStatus();
        });
    ASSERT_TRUE(regrouped.ok());
    const auto packed = Pack(backend(), w, traits.format, spec.num_slices);
    EXPECT_TRUE(SameBits(Multiply(backend(), x, *packed), Multiply(backend(), x, **regrouped)))
        << traits.name;
  }
}

TEST_P(GemmTest, RanksJoinedByTreeAddGiveTheBitsOfOneRank) {
  Random random(6);
  constexpr int kSlices = 8;
  for (const PackSpec& spec : kOperands) {
    SCOPED_TRACE(NameOf(spec));
    for (const int64_t rows : {1, 3, 110}) {
      const int64_t group = std::max<int64_t>(64, TraitsOf(spec.format.weights).group);
      const HostMatrix x =
          RandomMatrix(random, rows, kSlices * (IsQuantized(spec.format.weights) ? group : 37));
      const HostMatrix w = RandomMatrix(random, 90, x.cols);
      const HostMatrix alone = Multiply(backend(), x, *Pack(backend(), w, InSlices(spec, kSlices)));
      for (const int ranks : {1, 2, 4, 8}) {
        const int64_t share = x.cols / ranks;
        std::vector<DeviceMatrix> partials;
        std::vector<MatrixView> views;
        for (int rank = 0; rank < ranks; ++rank) {
          const auto part =
              Pack(backend(), w.Columns(rank * share, share), InSlices(spec, kSlices / ranks));
          partials.emplace_back(backend(),
                                Multiply(backend(), x.Columns(rank * share, share), *part));
          views.push_back(partials.back().view());
        }
        backend().TreeAdd(views, partials[0].view());
        EXPECT_TRUE(SameBits(partials[0].Read(), alone)) << ranks << " ranks";
      }
    }
  }
}

TEST_P(GemmTest, OutputsCutOverRanksGiveTheSameBits) {
  Random random(7);
  const HostMatrix x = RandomMatrix(random, 4, 130);
  const HostMatrix w = RandomMatrix(random, 4 * 27, x.cols);
  const HostMatrix whole = Multiply(backend(), x, *Pack(backend(), w));
  for (int rank = 0; rank < 4; ++rank) {
    const auto part = Pack(backend(), w.Rows(rank * 27, 27));
    EXPECT_TRUE(SameBits(Multiply(backend(), x, *part), whole.Columns(rank * 27, 27)));
  }
}

// Every combination of what an epilogue may ask for.
std::vector<GemmEpilogue> Epilogues(const float* bias, bool gated) {
  std::vector<GemmEpilogue> epilogues;
  for (const float* one_bias : {bias, static_cast<const float*>(nullptr)}) {
    for (const bool add_to_out : {false, true}) {
      epilogues.push_back(
          {.bias = one_bias, .activation = Activation::kSilu, .add_to_out = add_to_out});
      if (!gated) epilogues.push_back({.bias = one_bias, .add_to_out = add_to_out});
    }
  }
  return epilogues;
}

HostMatrix Multiply(Backend& backend, const HostMatrix& x, const PackedMatrix& weights,
                    const GemmEpilogue& epilogue, const HostMatrix& out_before) {
  DeviceMatrix in(backend, x), out(backend, out_before, 3);
  backend.Gemm(in.view(), weights, out.view(), epilogue);
  return out.Read();
}

TEST_P(GemmTest, EpiloguesAgreeWithReference) {
  Random random(8);
  for (int i = 0; i < 24; ++i) {
    const bool gated = i % 2 == 0;
    const int64_t columns = RandomInt(random, 1, 90);
    PackSpec spec = kOperands[i % std::size(kOperands)];
    if (RoundsWeights(spec)) continue;
    spec.gated = gated;
    const int64_t inputs = std::max<int64_t>(64, TraitsOf(spec.format.weights).group);
    const HostMatrix x = RandomMatrix(random, RandomInt(random, 1, 110), inputs);
    const HostMatrix w = RandomMatrix(random, columns * (gated ? 2 : 1), x.cols, 0.1F);
    const HostMatrix before = RandomMatrix(random, x.rows, columns);
    const HostMatrix bias = RandomMatrix(random, 1, w.rows);
    const DeviceMatrix device_bias(backend(), bias), reference_bias(reference(), bias);
    const auto actual = Epilogues(device_bias.data(), gated);
    const auto expected = Epilogues(reference_bias.data(), gated);
    const auto weights = Pack(backend(), w, spec), reference_weights = Pack(reference(), w, spec);
    for (size_t e = 0; e < actual.size(); ++e) {
      EXPECT_TRUE(IsNear(Multiply(backend(), x, *weights, actual[e], before),
                         Multiply(reference(), x, *reference_weights, expected[e], before),
                         spec.format == kFp8OfFp8 && MayMultiplyFp8() ? 2 * Fp8Tolerance() : 2e-5))
          << "epilogue " << e << ", " << columns << " columns" << (gated ? ", gated" : "");
    }
  }
}

// A rank alone adds to the residual stream at once; with neighbours the sum is added later.
TEST_P(GemmTest, AddingToTheOutputHasTheBitsOfAddingLater) {
  Random random(9);
  const HostMatrix x = RandomMatrix(random, 30, 256);
  const auto w = Pack(backend(), RandomMatrix(random, 75, 256), WeightFormat::kBF16, 8);
  const HostMatrix residual = RandomMatrix(random, x.rows, 75);
  const DeviceMatrix bias(backend(), RandomMatrix(random, 1, 75));
  const HostMatrix at_once =
      Multiply(backend(), x, *w, {.bias = bias.data(), .add_to_out = true}, residual);
  DeviceMatrix sum(backend(), Multiply(backend(), x, *w));
  DeviceMatrix later(backend(), residual);
  const MatrixView partials[] = {sum.view()};
  backend().TreeAddToResidual(partials, {.residual = later.view(), .bias = bias.data()});
  EXPECT_TRUE(SameBits(at_once, later.Read()));
}

TEST_P(GemmTest, GatedRowsDoNotDependOnEachOther) {
  Random random(10);
  const HostMatrix x = RandomMatrix(random, 130, 96);
  const auto w = Pack(backend(), RandomMatrix(random, 2 * 77, x.cols),
                      {.format = WeightFormat::kInt4, .gated = true});
  const HostMatrix before(x.rows, 77);
  const GemmEpilogue epilogue{.activation = Activation::kGelu};
  const HostMatrix together = Multiply(backend(), x, *w, epilogue, before);
  for (const int64_t row : {0, 1, 11, 12, 95, 96, 129}) {
    EXPECT_TRUE(SameBits(Multiply(backend(), x.Rows(row, 1), *w, epilogue, before.Rows(row, 1)),
                         together.Rows(row, 1)))
        << "row " << row;
  }
}

TEST_P(GemmTest, PackReadsEveryRowOnceInSmallGroups) {
  constexpr int64_t kRows = 1000;
  const PackSpec spec{.num_outputs = kRows, .num_inputs = 3, .format = WeightFormat::kBF16};
  std::mutex mutex;
  std::vector<int> times_read(kRows);
  const auto packed =
      backend().Pack(spec, [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
        const std::lock_guard lock(mutex);
        EXPECT_LE(end, kRows);
        EXPECT_LE(end - begin, 64);
        EXPECT_EQ(out.size(), (end - begin) * 3 * sizeof(uint16_t));
        for (int64_t row = begin; row < end; ++row) ++times_read[row];
        return absl::OkStatus();
      });
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_THAT(times_read, ::testing::Each(1));
  EXPECT_EQ((*packed)->num_outputs(), kRows);
  EXPECT_EQ((*packed)->num_inputs(), 3);
  EXPECT_GE((*packed)->size_bytes(), kRows * 3 * sizeof(uint16_t));
}

TEST_P(GemmTest, PackReturnsTheReadersFailure) {
  const PackSpec spec{.num_outputs = 300, .num_inputs = 8};
  const auto packed =
      backend().Pack(spec, [](int64_t begin, int64_t, absl::Span<std::byte>) -> absl::Status {
        if (begin < 100) return absl::OkStatus();
        return absl::DataLossError("the file ends early");
      });
  EXPECT_EQ(packed.status(), absl::DataLossError("the file ends early"));
}

}  // namespace
}  // namespace sluice::testing
