#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/gemm_hopper.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {

void GemmBFloat16OnHopper(Stream stream, const GemmTask& task) {
  LaunchFormatOnHopper<ImageFormat::kBF16>(stream, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
