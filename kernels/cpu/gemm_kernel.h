// The inner part of a matrix product: how one kind of instructions wants a panel of weights laid
// out, and how it multiplies rows of activations with it.
//
// A panel is kPanelWidth neighbouring outputs; the last one of a matrix holds what is left, padded
// with zeroes to a multiple of kWidthStep. Its K inputs are cut into the slices of PackSpec, and a
// slice is padded with zeroes to a multiple of the kernel's depth_step. Kernels are plain functions
// without state: any number of threads may call them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/pair_products.h"
#include "kernels/weight_format.h"

namespace sluice {

inline constexpr int64_t kPanelWidth = 32;
inline constexpr int64_t kWidthStep = 16;
// Rows that a kernel is given at most at a time, where it does not say otherwise.
inline constexpr int64_t kMostRows = 96;
// Rows of ActivationLayout::kBFloat16Blocks are a multiple of this, those of zeroes included, and
// inputs of its weights a multiple of kRowsDepth: a tile register has 16 rows of 32 bfloat16.
inline constexpr int64_t kRowsStep = 16;
inline constexpr int64_t kRowsDepth = 32;
// Room for the part of a panel that a kernel unpacks, in bytes.
inline constexpr int64_t kUnpackedBytes = 16384;

enum class ActivationLayout {
  kFloats,         // the operand itself, row-major
  kRoundedFloats,  // rounded to bfloat16 but stored as floats, row-major
  // bfloat16 in tiles of up to GemmKernel::tile_rows rows, all of one size but for the last one,
  // which holds what is left: element (r, k) of a tile of R rows lies at (k / 2) * 2 R + 2 r + k % 2.
  kBFloat16Tiles,
  // bfloat16 in blocks of kRowsStep rows and kRowsDepth inputs, row-major, with rows of zeroes up
  // to whole blocks. Blocks of the same rows lie one after another.
  kBFloat16Blocks,
};

// One slice of one panel, to be laid out.
struct PackRun {
  const std::byte* rows;  // output n of the panel begins at rows + n * row_bytes
  size_t row_bytes;
  int64_t outputs;  // of the panel, without padding
  int64_t width;    // with padding
  int64_t depth;    // without padding
  std::byte* out;   // zeroes
};

// Takes up finished sums of rows [row, row + rows) of a run.
using SumsReady = absl::FunctionRef<void(int64_t row, int64_t rows)>;

// One slice of one panel, to be multiplied with some rows: sums[r, n] = sum of x[r, k] * w[n, k].
struct SliceRun {
  // kFloats and kRoundedFloats: element (0, first input of the slice), rows x_stride floats apart.
  // kBFloat16Tiles: the first of whole tiles; one of R rows is R * x_stride elements.
  // kBFloat16Blocks: the first of whole blocks; those of the next rows are kRowsStep * x_stride
  // elements further.
  const void* x;
  int64_t x_stride;
  int64_t tile_rows;    // of a tile but for the last one; for kBFloat16Tiles
  int64_t first_input;  // of the slice, counted with padding; for bfloat16
  // For kernels with an excess: the sum of each group of kWeightGroup activations times
  // -sums_excess, in tiles like x, a row of a tile being sums_stride groups.
  const float* x_sums;
  int64_t sums_stride;
  int64_t rows;        // 1 to GemmKernel::most_rows
  const std::byte* w;  // what pack() wrote
  int64_t depth;       // with padding
  int64_t width;
  float* sums;  // [rows, kPanelWidth], overwritten; for kBFloat16Blocks, whole blocks of rows
  std::byte* unpacked;  // kUnpackedBytes to work in, 64-byte aligned
  // Where GemmKernel::hands_on_rows: called for all rows, some at a time, as soon as their sums are
  // complete and while they are in cache.
  SumsReady ready;
};

using MultiplySlice = void(const SliceRun& run);

struct GemmKernel {
  ActivationLayout activations;
  // What each unpacked weight is too large by, so that the kernel asks for x_sums; or 0.
  float sums_excess = 0;
  int64_t depth_step;
  int64_t tile_rows = 1;  // rows that are interleaved, or in a block, at most
  // Rows that are multiplied at a time, at most, and bytes of their activations.
  int64_t most_rows = kMostRows;
  int64_t most_row_bytes = std::numeric_limits<int64_t>::max();
  // 0: as many at a time as can be, of whole tiles. Otherwise about the same number each time, a
  // multiple of this.
  int64_t rows_step = 0;
  // Panels that take turns with such rows, where these fill the second-level cache.
  int64_t panels_per_group = 1;
  bool hands_on_rows = false;
  // Bytes of a packed slice of `width` outputs, padding included; those of its rows where null.
  int64_t (*slice_bytes)(int64_t width, int64_t depth) = nullptr;
  void (*pack)(const PackRun& run);
  MultiplySlice* multiply;
};

// Of those formats that the CPU multiplies (WeightFormatTraits::on_cpu), here as below.
const GemmKernel& GemmKernelFor(InstructionSet set, WeightFormat format);

// For any machine; of F32 always.
const GemmKernel& PortableGemmKernel(WeightFormat format);
// All but F32, for x86-64 machines that support InstructionSet::kAvx512Bf16.
const GemmKernel& Avx512Bf16GemmKernel(WeightFormat format, PairProducts products);
// The part of it for quantised formats.
const GemmKernel& Avx512QuantizedGemmKernel(WeightFormat format, PairProducts products);
// GemmKernel::multiply for machines that support InstructionSet::kAmxBf16; of all but F32 and formats
// that IsPublished.
MultiplySlice* AmxMultiply(WeightFormat format);
// Whether vectors have the bits of this processor's tiles, so that few rows go by them. REQUIRES: it
// supports InstructionSet::kAmxBf16.
bool VectorsHaveBitsOfTiles();

}  // namespace sluice
