#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/gemm_hopper.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {

void GemmInt4OnHopper(Stream stream, const GemmTask& task) {
  LaunchFormatOnHopper<ImageFormat::kInt4>(stream, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
