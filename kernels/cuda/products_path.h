// How a GPU that multiplies by given instructions has its products planned. A pure function.
#pragma once

#include "kernels/cuda/gemm_plan.h"
#include "kernels/gpu/gpu_facts.h"

namespace sluice::cuda {

constexpr GemmPath PathOf(GpuProducts products) {
  switch (products) {
    case GpuProducts::kPortable:
      return GemmPath::kPortable;
    case GpuProducts::kHopper:
      return GemmPath::kHopper;
    case GpuProducts::kPipelined:
    case GpuProducts::kFp8:
      return GemmPath::kPipelined;
  }
  return GemmPath::kPortable;
}

constexpr bool MultiplyFp8(GpuProducts products) { return products == GpuProducts::kFp8; }

}  // namespace sluice::cuda
