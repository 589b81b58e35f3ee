#include "kernels/cpu/gemm_kernel.h"

namespace sluice {

const GemmKernel& GemmKernelFor(InstructionSet set, WeightFormat format) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512Bf16 && format != WeightFormat::kF32) {
    return Avx512Bf16GemmKernel(format);
  }
#endif
  return PortableGemmKernel(format);
}

}  // namespace sluice
