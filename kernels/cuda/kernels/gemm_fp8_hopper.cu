#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/gemm_hopper.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {

void GemmFp8OnHopper(Stream stream, const GemmTask& task) {
  LaunchFormatOnHopper<ImageFormat::kFp8>(stream, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
