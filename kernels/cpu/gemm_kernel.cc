#include "kernels/cpu/gemm_kernel.h"

#include <array>
#include <optional>

namespace sluice {
#if defined(__x86_64__)
namespace {

// The packed weights of `vectors`, multiplied on tiles.
GemmKernel OnTiles(const GemmKernel& vectors, MultiplySlice* multiply) {
  return {.activations = ActivationLayout::kBFloat16Blocks,
          .depth_step = kRowsDepth,
          .tile_rows = kRowsStep,
          .most_rows = 512,
          .most_row_bytes = 5 << 18,  // of 2 MiB of second-level cache
          .rows_step = 2 * kRowsStep,
          .panels_per_group = 16,
          .hands_on_rows = true,
          .slice_bytes = vectors.slice_bytes,
          .pack = vectors.pack,
          .multiply = multiply};
}

const GemmKernel& OfVectors(WeightFormat format) {
  return Avx512Bf16GemmKernel(format, FastestPairProducts());
}

// Formats that tiles multiply; those of files of others go by vectors there, too.
bool HasTiles(WeightFormat format) { return format != WeightFormat::kF32 && !IsPublished(format); }

const GemmKernel& AmxGemmKernel(WeightFormat format) {
  static const auto& kernels = *[] {
    auto* const made = new std::array<std::optional<GemmKernel>, kNumWeightFormats>;
    for (const WeightFormatTraits& traits : kWeightFormats) {
      const bool is_native = traits.on_cpu == traits.format;
      if (!is_native || !HasTiles(traits.format)) continue;
      (*made)[IndexOf(traits.format)].emplace(
          OnTiles(OfVectors(traits.format), AmxMultiply(traits.format)));
    }
    return made;
  }();
  return *kernels[IndexOf(format)];
}

}  // namespace
#endif

const GemmKernel& GemmKernelFor(InstructionSet set, WeightFormat format) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAmxBf16 && HasTiles(format)) return AmxGemmKernel(format);
  if (set != InstructionSet::kPortable && format != WeightFormat::kF32) return OfVectors(format);
#endif
  return PortableGemmKernel(format);
}

}  // namespace sluice
