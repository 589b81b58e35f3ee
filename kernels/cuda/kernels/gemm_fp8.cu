#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/gemm_tiles.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {

void GemmFp8(Stream stream, const GemmTask& task) {
  LaunchFormat<ImageFormat::kFp8>(stream, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
