#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/gemm_pipelined.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {

void GemmBFloat16Pipelined(Stream stream, const GemmTask& task) {
  LaunchPipelined<ImageFormat::kBF16>(stream, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
