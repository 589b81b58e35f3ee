#include "kernels/cpu/gemm_kernel.h"

namespace sluice {

#if defined(__x86_64__)
namespace {

// The packed weights of `vectors`, multiplied on tiles.
GemmKernel OnTiles(const GemmKernel& vectors, void (*multiply)(const SliceRun&)) {
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

const GemmKernel& AmxGemmKernel(WeightFormat format) {
  static const GemmKernel bf16 = OnTiles(OfVectors(WeightFormat::kBF16), MultiplyWithAmx);
  static const GemmKernel int8 = OnTiles(OfVectors(WeightFormat::kInt8), MultiplyInt8WithAmx);
  static const GemmKernel int6 = OnTiles(OfVectors(WeightFormat::kInt6), MultiplyInt6WithAmx);
  static const GemmKernel int4 = OnTiles(OfVectors(WeightFormat::kInt4), MultiplyInt4WithAmx);
  static const GemmKernel fp8 = OnTiles(OfVectors(WeightFormat::kFp8), MultiplyFp8WithAmx);
  switch (format) {
    case WeightFormat::kInt8:
      return int8;
    case WeightFormat::kInt6:
      return int6;
    case WeightFormat::kInt4:
      return int4;
    case WeightFormat::kFp8:
      return fp8;
    default:
      return bf16;
  }
}

}  // namespace
#endif

const GemmKernel& GemmKernelFor(InstructionSet set, WeightFormat format) {
#if defined(__x86_64__)
  if (format != WeightFormat::kF32) {
    if (set == InstructionSet::kAmxBf16) return AmxGemmKernel(format);
    if (set == InstructionSet::kAvx512Bf16) return OfVectors(format);
  }
#endif
  return PortableGemmKernel(format);
}

}  // namespace sluice
