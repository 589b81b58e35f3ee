#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/gemm_hopper.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {

void GemmInt8OnHopper(Stream stream, const GemmTask& task) {
  LaunchFormatOnHopper<ImageFormat::kInt8>(stream, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
