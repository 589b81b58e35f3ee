// Products on any machine: a vector holds neighbouring outputs, and for k ascending each sum takes
// x[k] * w[k], fused where the machine can.
//
//   F32, BF16  element (n, k) of a panel lies at k * width + n
//   INT8       per group of 32 inputs: a scale per output (BF16), then q at k * width + n
//   INT6, INT4 the same with the bytes of kernels/weight_format.h: byte i of an output's group at
//              i * width + n
//   FP8        as INT8, with the codes of q
//   INT4_ZP, INT8_ZP, and in groups of 128: per group a word per output (kernels/affine_word.h), then
//              the bytes of kernels/weight_format.h, as in INT4 and INT8
//   INT4_K, INT6_K, and in groups of 128: the same with scales of kernels/two_level_scales.h
//   MXFP4      the same with a byte per output as its scale
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/check.h"
#include "kernels/cpu/gemm_kernel.h"
#include "kernels/two_level_scales.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_portable.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

// Rows whose sums are kept in registers at a time.
constexpr int kRegisterRows = 6;
// A run of a panel of this size stays in cache while the tiles of a block use it.
constexpr int64_t kResidentBytes = 32768;

// Vectors of outputs that a tile of `rows` rows can hold: its sums, one row of weights and one
// broadcast activation together fill the registers.
constexpr int TileVectors(int rows) {
  constexpr int kRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL ||
                                     (HWY_ARCH_ARM_A64 && HWY_TARGET == HWY_NEON)
                                 ? 32
                                 : 16;
  constexpr int kWholePanel = kPanelWidth / hn::MaxLanes(FloatTag());
  const int fit = (kRegisters - 1) / (rows + 1);
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(std::min(fit, kWholePanel))));
}

// A run of k over some rows and one panel.
template <class W>
struct PanelRun {
  const float* x;  // [rows, >= depth], x_stride apart
  int64_t x_stride;
  const W* w;  // [depth, width] contiguous
  int64_t depth;
  int64_t width;
  float* sums;  // [rows, kPanelWidth]
  bool starts_at_zero;
};

template <int kRows, int kVectors, class W>
void AddTile(const PanelRun<W>& run, int64_t column) {
  const FloatTag d;
  using V = hn::Vec<FloatTag>;
  const int64_t lanes = hn::Lanes(d);
  const float* x[kRows];
  V sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    x[r] = run.x + r * run.x_stride;
    for (int v = 0; v < kVectors; ++v) {
      const float* from = run.sums + r * kPanelWidth + column + v * lanes;
      sums[r][v] = run.starts_at_zero ? hn::Zero(d) : hn::Load(d, from);
    }
  }
  const W* w = run.w + column;
  for (int64_t k = 0; k < run.depth; ++k, w += run.width) {
    V weights[kVectors];
    for (int v = 0; v < kVectors; ++v) weights[v] = LoadWide(d, w + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const V activation = hn::Set(d, x[r][k]);
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = hn::MulAdd(activation, weights[v], sums[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      hn::Store(sums[r][v], d, run.sums + r * kPanelWidth + column + v * lanes);
    }
  }
}

// All columns of the panel from `column` on, by the widest tiles that fit.
template <int kRows, int kVectors, class W>
void AddColumns(const PanelRun<W>& run, int64_t column) {
  const int64_t step = kVectors * hn::Lanes(FloatTag());
  for (; column + step <= run.width; column += step) AddTile<kRows, kVectors>(run, column);
  if constexpr (kVectors > 1) {
    if (column < run.width) AddColumns<kRows, kVectors / 2>(run, column);
  }
}

template <class W>
void AddRows(PanelRun<W> run, int64_t rows) {
  for (; rows >= kRegisterRows; rows -= kRegisterRows) {
    AddColumns<kRegisterRows, TileVectors(kRegisterRows)>(run, 0);
    run.x += kRegisterRows * run.x_stride;
    run.sums += kRegisterRows * kPanelWidth;
  }
  static_assert(kRegisterRows == 6);
  switch (rows) {
    case 5:
      return AddColumns<5, TileVectors(5)>(run, 0);
    case 4:
      return AddColumns<4, TileVectors(4)>(run, 0);
    case 3:
      return AddColumns<3, TileVectors(3)>(run, 0);
    case 2:
      return AddColumns<2, TileVectors(2)>(run, 0);
    case 1:
      return AddColumns<1, TileVectors(1)>(run, 0);
  }
}

template <class W>
PanelRun<W> RunFrom(const SliceRun& run, int64_t k, int64_t depth, const W* w) {
  return {.x = static_cast<const float*>(run.x) + k,
          .x_stride = run.x_stride,
          .w = w,
          .depth = depth,
          .width = run.width,
          .sums = run.sums,
          .starts_at_zero = k == 0};
}

template <class W>
void MultiplyPlain(const SliceRun& run) {
  // With a single tile nothing is read twice, and the sums may stay in registers throughout.
  constexpr int64_t kResident = kResidentBytes / (kPanelWidth * static_cast<int64_t>(sizeof(W)));
  const int64_t step = run.rows <= kRegisterRows ? run.depth : kResident;
  const auto* w = reinterpret_cast<const W*>(run.w);
  for (int64_t k = 0; k < run.depth; k += step) {
    AddRows(RunFrom(run, k, std::min(step, run.depth - k), w + k * run.width), run.rows);
  }
}

// The weights of one input, of two or of four, as floats.
struct Int8 {
  static constexpr int64_t kInputs = 1, kBytes = 1;

  HWY_INLINE static void Unpack(const std::byte* row, int64_t width, int64_t n, float scale_of[],
                                float* to) {
    const FloatTag d;
    const hn::Rebind<int8_t, FloatTag> d8;
    const hn::Rebind<int32_t, FloatTag> d32;
    (void)width;
    const auto q = hn::LoadU(d8, reinterpret_cast<const int8_t*>(row) + n);
    const auto wide = hn::ConvertTo(d, hn::PromoteTo(d32, q));
    hn::Store(hn::Mul(wide, hn::Load(d, scale_of + n)), d, to + n);
  }
};

struct Fp8 {
  static constexpr int64_t kInputs = 1, kBytes = 1;

  HWY_INLINE static void Unpack(const std::byte* row, int64_t width, int64_t n, float scale_of[],
                                float* to) {
    const FloatTag d;
    (void)width;
    const auto q = LoadWide(d, reinterpret_cast<const uint8_t*>(row) + n);
    hn::Store(hn::Mul(q, hn::Load(d, scale_of + n)), d, to + n);
  }
};

struct Int4 {
  static constexpr int64_t kInputs = 2, kBytes = 1;

  HWY_INLINE static void Unpack(const std::byte* row, int64_t width, int64_t n, float scale_of[],
                                float* to) {
    const FloatTag d;
    const hn::Rebind<uint8_t, FloatTag> d8;
    const hn::Rebind<int32_t, FloatTag> d32;
    const auto scale = hn::Load(d, scale_of + n);
    const auto both = hn::PromoteTo(d32, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(row) + n));
    const auto eight = hn::Set(d32, 8);
    const auto low = hn::Sub(hn::And(both, hn::Set(d32, 15)), eight);
    const auto high = hn::Sub(hn::ShiftRight<4>(both), eight);
    hn::Store(hn::Mul(hn::ConvertTo(d, low), scale), d, to + n);
    hn::Store(hn::Mul(hn::ConvertTo(d, high), scale), d, to + width + n);
  }
};

struct Int6 {
  static constexpr int64_t kInputs = 4, kBytes = 3;

  HWY_INLINE static void Unpack(const std::byte* row, int64_t width, int64_t n, float scale_of[],
                                float* to) {
    const FloatTag d;
    const hn::Rebind<uint8_t, FloatTag> d8;
    const hn::Rebind<int32_t, FloatTag> d32;
    const auto load = [=](int64_t byte) HWY_ATTR {
      const auto* const bytes = reinterpret_cast<const uint8_t*>(row) + byte * width + n;
      return hn::PromoteTo(d32, hn::LoadU(d8, bytes));
    };
    const auto scale = hn::Load(d, scale_of + n);
    const auto put = [=](int64_t input, auto low, auto high) HWY_ATTR {
      const auto both = hn::Or(hn::And(low, hn::Set(d32, 15)), hn::And(high, hn::Set(d32, 48)));
      const auto q = hn::ConvertTo(d, hn::Sub(both, hn::Set(d32, 32)));
      hn::Store(hn::Mul(q, scale), d, to + input * width + n);
    };
    const auto first = load(0), second = load(1), high = load(2);
    put(0, first, hn::ShiftLeft<4>(high));
    put(1, hn::ShiftRight<4>(first), hn::ShiftLeft<2>(high));
    put(2, second, high);
    put(3, hn::ShiftRight<4>(second), hn::ShiftRight<2>(high));
  }
};

// One group as floats [kWeightGroup, width]; returns where the next one begins. A product of a
// scale and a number of a few bits is a float without rounding.
template <class Code>
const std::byte* UnpackGroup(const std::byte* w, int64_t width, float* to) {
  const FloatTag d;
  const int64_t lanes = hn::Lanes(d);
  HWY_ALIGN float scales[kPanelWidth];
  const auto* stored = reinterpret_cast<const uint16_t*>(w);
  for (int64_t n = 0; n < width; n += lanes) {
    hn::Store(LoadWide(d, stored + n), d, scales + n);
  }
  w += width * sizeof(uint16_t);
  for (int64_t k = 0; k < kWeightGroup; k += Code::kInputs, w += Code::kBytes * width) {
    for (int64_t n = 0; n < width; n += lanes) Code::Unpack(w, width, n, scales, to + k * width);
  }
  return w;
}

// Products with a format whose groups `kUnpack` turns into floats [group, width], returning where the
// next one begins.
template <int64_t kGroup, const std::byte* (*kUnpack)(const std::byte* w, int64_t width, float* to)>
void MultiplyUnpacked(const SliceRun& run) {
  constexpr int64_t kStep = kUnpackedBytes / (kPanelWidth * static_cast<int64_t>(sizeof(float)));
  static_assert(kStep % kGroup == 0);
  auto* unpacked = reinterpret_cast<float*>(run.unpacked);
  const std::byte* w = run.w;
  for (int64_t k = 0; k < run.depth; k += kStep) {
    const int64_t depth = std::min(kStep, run.depth - k);
    for (int64_t i = 0; i < depth; i += kGroup) {
      w = kUnpack(w, run.width, unpacked + i * run.width);
    }
    AddRows(RunFrom<float>(run, k, depth, unpacked), run.rows);
  }
}

// Codes of the formats with zero points: numbers less their zero point, as integers.
struct Int4Zp {
  static constexpr int64_t kInputs = 2, kBytes = 1;

  template <class D32>
  HWY_INLINE static void Unpack(D32 d32, const std::byte* row, hn::Vec<D32> zero,
                                hn::Vec<D32>* numbers) {
    const hn::Rebind<uint8_t, D32> d8;
    const auto both = hn::PromoteTo(d32, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(row)));
    numbers[0] = hn::Sub(hn::And(both, hn::Set(d32, 15)), zero);
    numbers[1] = hn::Sub(hn::ShiftRight<4>(both), zero);
  }
};

struct Int8Zp {
  static constexpr int64_t kInputs = 1, kBytes = 1;

  template <class D32>
  HWY_INLINE static void Unpack(D32 d32, const std::byte* row, hn::Vec<D32> zero,
                                hn::Vec<D32>* numbers) {
    const hn::Rebind<uint8_t, D32> d8;
    const auto number = hn::PromoteTo(d32, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(row)));
    numbers[0] = hn::Sub(number, zero);
  }
};

// One group as floats [kGroup, width]; returns where the next one begins. The outputs of a vector
// keep their scales and zero points in registers.
template <class Code, int64_t kGroup>
const std::byte* UnpackAffineGroup(const std::byte* w, int64_t width, float* to) {
  const FloatTag d;
  const hn::Rebind<int32_t, FloatTag> d32;
  const auto* words = reinterpret_cast<const int32_t*>(w);
  w += width * sizeof(uint32_t);
  for (int64_t n = 0; n < width; n += hn::Lanes(d)) {
    const auto word = hn::LoadU(d32, words + n);
    const auto scale = hn::BitCast(d, hn::And(word, hn::Set(d32, ~0xff)));
    const auto zero = hn::And(word, hn::Set(d32, 0xff));
    const std::byte* row = w + n;
    float* out = to + n;
    for (int64_t k = 0; k < kGroup; k += Code::kInputs, row += Code::kBytes * width) {
      hn::Vec<decltype(d32)> numbers[Code::kInputs];
      Code::Unpack(d32, row, zero, numbers);
      for (int64_t i = 0; i < Code::kInputs; ++i, out += width) {
        hn::Store(hn::Mul(hn::ConvertTo(d, numbers[i]), scale), d, out);
      }
    }
  }
  return w + kGroup / Code::kInputs * Code::kBytes * width;
}

// Codes of the formats with scales of two levels, as integers.
struct Int4K {
  static constexpr int64_t kInputs = 2, kBytes = 1;

  template <class D32>
  HWY_INLINE static void Unpack(D32 d32, const std::byte* row, int64_t /*width*/,
                                hn::Vec<D32>* numbers) {
    Int4Zp::Unpack(d32, row, hn::Zero(d32), numbers);
  }
};

struct Int6K {
  static constexpr int64_t kInputs = 4, kBytes = 3;

  template <class D32>
  HWY_INLINE static void Unpack(D32 d32, const std::byte* row, int64_t width,
                                hn::Vec<D32>* numbers) {
    const hn::Rebind<uint8_t, D32> d8;
    const auto load = [=](int64_t byte) HWY_ATTR {
      return hn::PromoteTo(d32,
                           hn::LoadU(d8, reinterpret_cast<const uint8_t*>(row) + byte * width));
    };
    const auto both = [=](auto low, auto high) HWY_ATTR {
      const auto number = hn::Or(hn::And(low, hn::Set(d32, 15)), hn::And(high, hn::Set(d32, 48)));
      return hn::Sub(number, hn::Set(d32, 32));
    };
    const auto first = load(0), second = load(1), high = load(2);
    numbers[0] = both(first, hn::ShiftLeft<4>(high));
    numbers[1] = both(hn::ShiftRight<4>(first), hn::ShiftLeft<2>(high));
    numbers[2] = both(second, high);
    numbers[3] = both(hn::ShiftRight<4>(second), hn::ShiftRight<2>(high));
  }
};

// One group as floats [group, width]; returns where the next one begins.
template <class Code, WeightFormat kFormat>
const std::byte* UnpackTwoLevelGroup(const std::byte* w, int64_t width, float* to) {
  using Layout = TwoLevelLayout<kFormat>;
  const FloatTag d;
  const hn::Rebind<int32_t, FloatTag> d32;
  HWY_ALIGN float scales[Layout::kRuns][kPanelWidth];
  HWY_ALIGN float minimums[Layout::kParts][kPanelWidth];
  for (int64_t n = 0; n < width; ++n, w += Layout::kHeaderBytes) {
    const TwoLevelScales<kFormat> of_output(w);
    for (int64_t r = 0; r < Layout::kRuns; ++r) scales[r][n] = of_output.scales[r];
    for (int64_t p = 0; p < Layout::kParts; ++p) minimums[p][n] = of_output.minimums[p];
  }
  for (int64_t n = 0; n < width; n += hn::Lanes(d)) {
    const std::byte* row = w + n;
    float* out = to + n;
    for (int64_t r = 0; r < Layout::kRuns; ++r) {
      const auto scale = hn::Load(d, scales[r] + n);
      const auto minimum = hn::Load(d, minimums[r / Layout::kRunsOfPart] + n);
      for (int64_t k = 0; k < Layout::kRun; k += Code::kInputs, row += Code::kBytes * width) {
        hn::Vec<decltype(d32)> numbers[Code::kInputs];
        Code::Unpack(d32, row, width, numbers);
        for (int64_t i = 0; i < Code::kInputs; ++i, out += width) {
          hn::Store(hn::Sub(hn::Mul(hn::ConvertTo(d, numbers[i]), scale), minimum), d, out);
        }
      }
    }
  }
  return w + Layout::kParts * Layout::kCodeBytes * width;
}

// The numbers of codes of kernels/fp4.h, an integer each. Exponent and mantissa of a float are those of
// the code, 126 powers of two too low, which holds for numbers without an exponent as well.
template <class D>
HWY_INLINE hn::Vec<D> Fp4Numbers(D d, hn::Vec<hn::Rebind<int32_t, D>> codes) {
  const hn::Rebind<int32_t, D> d32;
  const auto magnitude = hn::ShiftLeft<22>(hn::And(codes, hn::Set(d32, 7)));
  const auto sign = hn::ShiftLeft<28>(hn::And(codes, hn::Set(d32, 8)));
  return hn::Mul(hn::BitCast(d, hn::Or(magnitude, sign)), hn::Set(d, 0x1p126f));
}

const std::byte* UnpackFp4Group(const std::byte* w, int64_t width, float* to) {
  const FloatTag d;
  const hn::Rebind<uint8_t, FloatTag> d8;
  const hn::Rebind<int32_t, FloatTag> d32;
  const auto load = [=](const std::byte* bytes) HWY_ATTR {
    return hn::PromoteTo(d32, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(bytes)));
  };
  for (int64_t n = 0; n < width; n += hn::Lanes(d)) {
    const auto exponent = load(w + n);
    // The least has no exponent of its own, and the last stands for no number.
    const auto is_end =
        hn::Or(hn::Eq(exponent, hn::Zero(d32)), hn::Eq(exponent, hn::Set(d32, 255)));
    const auto half = hn::IfThenElseZero(is_end, hn::Set(d32, 1 << 22));
    const auto scale = hn::BitCast(d, hn::Or(hn::ShiftLeft<23>(exponent), half));
    const std::byte* row = w + width + n;
    float* out = to + n;
    for (int64_t k = 0; k < kWeightGroup; k += 2, row += width, out += 2 * width) {
      const auto both = load(row);
      hn::Store(hn::Mul(Fp4Numbers(d, both), scale), d, out);
      hn::Store(hn::Mul(Fp4Numbers(d, hn::ShiftRight<4>(both)), scale), d, out + width);
    }
  }
  return w + width * TraitsOf(WeightFormat::kMxFp4).group_bytes;
}

// GemmKernel::multiply of a format that the CPU multiplies.
MultiplySlice* MultiplyOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return MultiplyPlain<float>;
    case WeightFormat::kBF16:
      return MultiplyPlain<uint16_t>;
    case WeightFormat::kInt8:
      return MultiplyUnpacked<kWeightGroup, UnpackGroup<Int8>>;
    case WeightFormat::kInt6:
      return MultiplyUnpacked<kWeightGroup, UnpackGroup<Int6>>;
    case WeightFormat::kInt4:
      return MultiplyUnpacked<kWeightGroup, UnpackGroup<Int4>>;
    case WeightFormat::kFp8:
      return MultiplyUnpacked<kWeightGroup, UnpackGroup<Fp8>>;
    case WeightFormat::kInt4Zp:
      return MultiplyUnpacked<32, UnpackAffineGroup<Int4Zp, 32>>;
    case WeightFormat::kInt8Zp:
      return MultiplyUnpacked<32, UnpackAffineGroup<Int8Zp, 32>>;
    case WeightFormat::kInt4ZpG128:
      return MultiplyUnpacked<128, UnpackAffineGroup<Int4Zp, 128>>;
    case WeightFormat::kInt8ZpG128:
      return MultiplyUnpacked<128, UnpackAffineGroup<Int8Zp, 128>>;
    case WeightFormat::kInt4K:
      return MultiplyUnpacked<32, UnpackTwoLevelGroup<Int4K, WeightFormat::kInt4K>>;
    case WeightFormat::kInt6K:
      return MultiplyUnpacked<32, UnpackTwoLevelGroup<Int6K, WeightFormat::kInt6K>>;
    case WeightFormat::kInt4KG128:
      return MultiplyUnpacked<128, UnpackTwoLevelGroup<Int4K, WeightFormat::kInt4KG128>>;
    case WeightFormat::kInt6KG128:
      return MultiplyUnpacked<128, UnpackTwoLevelGroup<Int6K, WeightFormat::kInt6KG128>>;
    case WeightFormat::kMxFp4:
      return MultiplyUnpacked<kWeightGroup, UnpackFp4Group>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {
namespace {

template <class T>
void PackPlain(const PackRun& run) {
  constexpr int64_t kBlock = 64 / sizeof(T);  // a cache line of each row
  auto* out = reinterpret_cast<T*>(run.out);
  for (int64_t begin = 0; begin < run.depth; begin += kBlock) {
    const int64_t end = std::min(run.depth, begin + kBlock);
    for (int64_t n = 0; n < run.outputs; ++n) {
      const auto* row = reinterpret_cast<const T*>(run.rows + n * run.row_bytes);
      for (int64_t k = begin; k < end; ++k) out[k * run.width + n] = row[k];
    }
  }
}

// Bytes of a group before its codes.
template <WeightFormat kFormat>
constexpr int64_t HeaderBytes() {
  if constexpr (HasTwoLevelScales(kFormat)) return TwoLevelLayout<kFormat>::kHeaderBytes;
  if (TraitsOf(kFormat).scales == WeightScales::kPowers) return 1;
  return HasZeroPoints(kFormat) ? 4 : 2;
}

template <WeightFormat kFormat>
void PackQuantized(const PackRun& run) {
  constexpr int64_t kGroupBytes = TraitsOf(kFormat).group_bytes;
  constexpr int64_t kScaleBytes = HeaderBytes<kFormat>();
  std::byte* out = run.out;
  for (int64_t group = 0; group < run.depth / TraitsOf(kFormat).group; ++group) {
    for (int64_t n = 0; n < run.outputs; ++n) {
      const std::byte* from = run.rows + n * run.row_bytes + group * kGroupBytes;
      std::memcpy(out + kScaleBytes * n, from, kScaleBytes);
      for (int64_t i = kScaleBytes; i < kGroupBytes; ++i) out[i * run.width + n] = from[i];
    }
    out += kGroupBytes * run.width;
  }
}

HWY_EXPORT(MultiplyOf);

// By the target of the moment, which tests change.
template <WeightFormat kFormat>
void Multiply(const SliceRun& run) {
  HWY_DYNAMIC_DISPATCH(MultiplyOf)(kFormat)(run);
}

template <WeightFormat kFormat>
constexpr GemmKernel KernelOf() {
  GemmKernel kernel{.activations = ActivationLayout::kRoundedFloats,
                    .depth_step = 1,
                    .pack = PackQuantized<kFormat>,
                    .multiply = Multiply<kFormat>};
  if (kFormat == WeightFormat::kF32) {
    kernel.activations = ActivationLayout::kFloats;
    kernel.pack = PackPlain<float>;
  } else if (kFormat == WeightFormat::kBF16) {
    kernel.pack = PackPlain<uint16_t>;
  }
  return kernel;
}

template <size_t... kIndices>
constexpr std::array<GemmKernel, kNumWeightFormats> KernelsOf(std::index_sequence<kIndices...>) {
  return {KernelOf<static_cast<WeightFormat>(kIndices)>()...};
}

}  // namespace

const GemmKernel& PortableGemmKernel(WeightFormat format) {
  static constexpr auto kKernels = KernelsOf(std::make_index_sequence<kNumWeightFormats>());
  SLUICE_CHECK(TraitsOf(format).on_cpu == format);
  return kKernels[IndexOf(format)];
}

}  // namespace sluice
#endif  // HWY_ONCE
