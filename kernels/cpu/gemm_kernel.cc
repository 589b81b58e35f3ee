#include "kernels/cpu/gemm_kernel.h"

namespace sluice {

const GemmKernel& GemmKernelFor(InstructionSet set, WeightFormat format) {
#if defined(__x86_64__)
  // Quantised weights are turned into bfloat16 in vector registers, where their sums then stay.
  static const GemmKernel amx_bf16{
      .activations = ActivationLayout::kBFloat16Rows,
      .needs_sums = false,
      .depth_step = kRowsDepth,
      .pack = Avx512Bf16GemmKernel(WeightFormat::kBF16).pack,
      .multiply = MultiplyWithAmx,
  };
  if (set == InstructionSet::kAmxBf16 && format == WeightFormat::kBF16) return amx_bf16;
  if (set != InstructionSet::kPortable && format != WeightFormat::kF32) {
    return Avx512Bf16GemmKernel(format);
  }
#endif
  return PortableGemmKernel(format);
}

}  // namespace sluice
