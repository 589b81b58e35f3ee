#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/gemm_pipelined.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {

void GemmFp8PairsPipelined(Stream stream, const GemmTask& task) {
  LaunchPipelined<ImageFormat::kFp8Pairs>(stream, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
